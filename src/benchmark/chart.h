// Charts as inline SVG: text in, text out. Colours come from the page's style (classes s0, s1, …), so that one chart
// serves light and dark. Marks have the class "mark" and lie inside the rectangle of class "plot"; a test in a browser
// holds them to that. Every mark says its figures in a <title>, which browsers show on hover.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "benchmark/statistics.h"

namespace kpt {

// Series beyond this many are not told apart by colour; callers leave them out and say so.
inline constexpr std::size_t kMaxSeries = 6;

// `text` with the five characters that mean something in HTML replaced.
std::string escape_html(std::string_view text);
// Four significant figures without needless zeros: "44.93", "0.0123", "1532".
std::string short_number(double value);

// Evenly spaced round numbers that cover `low` to `high` (1, 2 or 5 times a power of ten apart), about `count` of them.
// The first is at most `low`, the last at least `high`. `low` < `high`, both finite.
std::vector<double> round_ticks(double low, double high, std::size_t count);

// How often which time: bars, with lines at median, p90 and p99. Not empty. Samples beyond the right edge (a tail
// longer than the rest) are counted in a note below.
std::string draw_histogram(std::span<const double> samples_ms, const SampleSummary& summary);

struct ChartPoint {
  double x = 0;
  double y = 0;
  Interval interval;  // of y
};
struct ChartSeries {
  std::string name;
  std::vector<ChartPoint> points;  // x ascends
};
// Curves over sizes, y from 0. The x axis is logarithmic when the sizes span more than a factor of four. At most
// kMaxSeries series; a legend from two on.
std::string draw_curves(std::span<const ChartSeries> series, std::string_view x_label, std::string_view y_label);

struct ChartBar {
  std::string name;
  double value = 0;
  std::optional<Interval> interval;
  std::string note;  // shown behind the bar
};
struct ChartGroup {
  std::string name;
  std::vector<ChartBar> bars;
};
// Horizontal bars from 0 in groups, with whiskers where there is an interval. Bars of one name have one colour.
std::string draw_bars(std::span<const ChartGroup> groups, std::string_view unit);

struct ChartLimit {
  std::string name;
  double value = 0;             // 0 is drawn at the left edge
  std::optional<double> other;  // for scale, hollow
  std::optional<double> limit;  // a line that the value should stay left of
  std::string note;
};
// Dots on a logarithmic axis, each with its limit.
std::string draw_limits(std::span<const ChartLimit> rows, std::string_view value_name, std::string_view other_name,
                        std::string_view limit_name);

}  // namespace kpt
