#include "benchmark/chart.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace kpt {
namespace {

// Sizes in the units of the drawing; the page scales it as a whole.
constexpr double kWidth = 520;
constexpr double kLetter = 6.6;  // mean width of a letter of size 12, rather too wide than too narrow

struct Area {
  double left = 0, top = 0, right = 0, bottom = 0;
  double width() const { return right - left; }
  double height() const { return bottom - top; }
};

struct Scale {
  double low = 0, high = 1, from = 0, to = 1;
  bool logarithmic = false;
  double operator()(double value) const {
    const auto place = [&](double v) { return logarithmic ? std::log(v) : v; };
    const double share = (place(value) - place(low)) / (place(high) - place(low));
    return from + std::clamp(share, 0.0, 1.0) * (to - from);
  }
};

std::string open_svg(double height, std::string_view label) {
  return fmt::format(R"(<svg viewBox="0 0 {:.0f} {:.0f}" role="img" aria-label="{}">)"
                     "\n",
                     kWidth, height, escape_html(label));
}

std::string text_at(double x, double y, std::string_view anchor, std::string_view text, std::string_view classes = "") {
  return fmt::format(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="{}" class="{}">{}</text>)"
                     "\n",
                     x, y, anchor, classes, escape_html(text));
}

std::string line(double x1, double y1, double x2, double y2, std::string_view classes) {
  return fmt::format(R"(<line x1="{:.2f}" y1="{:.2f}" x2="{:.2f}" y2="{:.2f}" class="{}"/>)"
                     "\n",
                     x1, y1, x2, y2, classes);
}

std::string plot_area(const Area& area) {
  return fmt::format(R"(<rect class="plot" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"/>)"
                     "\n",
                     area.left, area.top, area.width(), area.height());
}

// As much of a text as fits into `width`, in code points.
std::string shorten(std::string_view text, double width) {
  const auto most = static_cast<std::size_t>(std::max(width / kLetter, 4.0));
  std::size_t points = 0;
  for (std::size_t index = 0; index < text.size(); ++index) {
    if ((static_cast<unsigned char>(text[index]) & 0xc0U) == 0x80U) continue;
    if (++points > most) return std::string(text.substr(0, index)) + "…";
  }
  return std::string(text);
}

// Labels below the plot where they do not meet, in the order given; near an edge they move inwards, clear of the
// lowest label of the y axis and of the drawing's end.
std::string x_axis(const Area& area, const Scale& scale, std::span<const double> ticks, std::string_view label) {
  std::string svg;
  double free_from = 0;
  for (const double tick : ticks) {
    const double x = scale(tick);
    svg += line(x, area.bottom, x, area.bottom + 4, "tick");
    const std::string text = short_number(tick);
    const double half = kLetter * static_cast<double>(text.size()) / 2 + 3;
    const double middle = std::clamp(x, area.left + half - 4, kWidth - half);
    if (middle - half < free_from) continue;
    svg += text_at(middle, area.bottom + 17, "middle", text, "label");
    free_from = middle + half;
  }
  return svg + text_at(area.right, area.bottom + 34, "end", label, "axis-name");
}

std::string y_axis(const Area& area, const Scale& scale, std::span<const double> ticks, std::string_view label) {
  std::string svg;
  for (const double tick : ticks) {
    const double y = scale(tick);
    svg += line(area.left, y, area.right, y, "grid");
    svg += text_at(area.left - 6, y + 4, "end", short_number(tick), "label");
  }
  return svg + text_at(area.left, area.top - 10, "start", label, "axis-name");
}

// Swatches in a row; wraps. Gives the height used.
std::string legend(std::span<const std::string> names, std::string_view shape, double top, double* height) {
  std::string svg;
  double x = 4;
  double y = top;
  for (std::size_t index = 0; index < names.size(); ++index) {
    const double width = 22 + kLetter * static_cast<double>(names[index].size()) + 16;
    if (x > 4 && x + width > kWidth) {
      x = 4;
      y += 18;
    }
    svg += fmt::format(R"(<rect x="{:.1f}" y="{:.1f}" width="12" height="{}" rx="2" class="fill s{}"/>)"
                       "\n",
                       x, shape == "line" ? y + 5 : y, shape == "line" ? 3 : 12, index);
    svg += text_at(x + 18, y + 10, "start", names[index], "label");
    x += width;
  }
  *height = y + 22 - top;
  return svg;
}

std::vector<double> counts_by_bin(std::span<const double> samples, double low, double high, std::size_t bins) {
  std::vector<double> counts(bins, 0);
  for (const double sample : samples) {
    if (sample > high) continue;
    const double place = (sample - low) / (high - low) * static_cast<double>(bins);
    counts[std::min(static_cast<std::size_t>(std::max(place, 0.0)), bins - 1)] += 1;
  }
  return counts;
}

// Freedman and Diaconis: twice the middle half's width over the cube root of n.
std::size_t choose_bins(std::span<const double> sorted, double low, double high) {
  const double middle = percentile(sorted, 0.75) - percentile(sorted, 0.25);
  const double width = 2 * middle / std::cbrt(static_cast<double>(sorted.size()));
  if (width <= 0) return 10;
  return static_cast<std::size_t>(std::clamp((high - low) / width, 8.0, 40.0));
}

// The three lines of a histogram, and what they are in a row above the plot.
std::string percentile_lines(const Area& area, const Scale& x, const SampleSummary& summary) {
  struct Line {
    const char* name;
    const char* style;
    double value;
  };
  const Line lines[] = {{"median", "rule strong", summary.median},
                        {"p90", "rule dashed", summary.p90},
                        {"p99", "rule dotted", summary.p99}};
  std::string svg;
  double place = area.left;
  for (const Line& one : lines) {
    if (one.value <= x.high) svg += line(x(one.value), area.top, x(one.value), area.bottom, one.style);
    const std::string text = fmt::format("{} {} ms", one.name, short_number(one.value));
    svg += line(place, 8, place + 20, 8, one.style);
    svg += text_at(place + 26, 12, "start", text, "label");
    place += 26 + kLetter * static_cast<double>(text.size()) + 18;
  }
  return svg;
}

}  // namespace

std::string escape_html(std::string_view text) {
  std::string safe;
  for (const char letter : text) {
    switch (letter) {
      case '&': safe += "&amp;"; break;
      case '<': safe += "&lt;"; break;
      case '>': safe += "&gt;"; break;
      case '"': safe += "&quot;"; break;
      case '\'': safe += "&#39;"; break;
      default: safe += letter;
    }
  }
  return safe;
}

std::string short_number(double value) {
  if (value != 0 && (std::fabs(value) < 1e-3 || std::fabs(value) >= 1e6)) return fmt::format("{:.3g}", value);
  const int whole = value == 0 ? 1 : static_cast<int>(std::floor(std::log10(std::fabs(value)))) + 1;
  std::string text = fmt::format("{:.{}f}", value, std::clamp(4 - whole, 0, 6));
  if (text.find('.') != std::string::npos) {
    while (text.ends_with('0')) text.pop_back();
    if (text.ends_with('.')) text.pop_back();
  }
  return text;
}

std::vector<double> round_ticks(double low, double high, std::size_t count) {
  const double rough = (high - low) / static_cast<double>(std::max<std::size_t>(count, 1));
  const double power = std::pow(10, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough * 0.999) {
      step = factor * power;
      break;
    }
  }
  std::vector<double> ticks;
  const double first = std::floor(low / step + 1e-9);
  for (double index = first; ticks.size() < 100; ++index) {
    ticks.push_back(index * step);
    if (ticks.back() >= high - 1e-9 * step) break;
  }
  return ticks;
}

std::string draw_histogram(std::span<const double> samples_ms, const SampleSummary& summary) {
  std::vector<double> sorted(samples_ms.begin(), samples_ms.end());
  std::ranges::sort(sorted);
  // A single pause of a second would leave the rest in one bar: the axis ends where almost all samples do.
  const double low = sorted.front();
  double high = std::max({summary.p99, summary.median * 1.01, low * 1.001 + 1e-9});
  if (summary.most < high + 0.5 * (high - low)) high = std::max(high, summary.most);
  const auto beyond = static_cast<std::size_t>(std::ranges::count_if(sorted, [&](double s) { return s > high; }));
  const std::size_t bins = choose_bins(sorted, low, high);
  const std::vector<double> counts = counts_by_bin(samples_ms, low, high, bins);
  const double most = *std::ranges::max_element(counts);

  const Area area{48, 44, kWidth - 12, 204};
  const std::vector<double> y_ticks = round_ticks(0, most, 4);
  const Scale x{low, high, area.left, area.right};
  const Scale y{0, y_ticks.back(), area.bottom, area.top};
  std::string svg = open_svg(area.bottom + 46, "distribution of run times") + plot_area(area);
  std::vector<double> whole_ticks;
  for (const double tick : y_ticks) {
    if (std::fabs(tick - std::round(tick)) < 1e-9) whole_ticks.push_back(tick);
  }
  svg += y_axis(area, y, whole_ticks, "runs");
  const double step = area.width() / static_cast<double>(bins);
  const double width_ms = (high - low) / static_cast<double>(bins);
  for (std::size_t bin = 0; bin < bins; ++bin) {
    if (counts[bin] == 0) continue;
    const double from = low + width_ms * static_cast<double>(bin);
    svg += fmt::format(
        R"(<rect class="mark fill s0" x="{:.2f}" y="{:.2f}" width="{:.2f}" height="{:.2f}"><title>{} to {} ms: {:.0f} runs</title></rect>)"
        "\n",
        area.left + step * static_cast<double>(bin) + 0.5, y(counts[bin]), std::max(step - 1, 0.5),
        area.bottom - y(counts[bin]), short_number(from), short_number(from + width_ms), counts[bin]);
  }
  svg += percentile_lines(area, x, summary);
  std::vector<double> x_ticks = round_ticks(low, high, 6);
  std::erase_if(x_ticks, [&](double tick) { return tick < low || tick > high; });
  svg += x_axis(area, x, x_ticks, "ms");
  if (beyond > 0) {
    svg +=
        text_at(area.left, area.bottom + 34, "start",
                fmt::format("{} further run{} up to {} ms", beyond, beyond == 1 ? "" : "s", short_number(summary.most)),
                "label");
  }
  return svg + "</svg>\n";
}

std::string draw_curves(std::span<const ChartSeries> series, std::string_view x_label, std::string_view y_label) {
  std::vector<double> xs;
  double top = 0;
  for (const ChartSeries& one : series) {
    for (const ChartPoint& point : one.points) {
      xs.push_back(point.x);
      top = std::max({top, point.y, point.interval.high});
    }
  }
  std::ranges::sort(xs);
  xs.erase(std::unique(xs.begin(), xs.end()), xs.end());
  std::vector<std::string> names;
  for (const ChartSeries& one : series) names.push_back(one.name);
  double legend_height = 0;
  std::string svg = names.size() > 1 ? legend(names, "line", 2, &legend_height) : "";

  const Area area{58, 30 + legend_height, kWidth - 16, 230 + legend_height};
  const std::vector<double> y_ticks = round_ticks(0, top > 0 ? top : 1, 5);
  Scale x{xs.front(), xs.back(), area.left + 14, area.right - 14};
  x.logarithmic = xs.front() > 0 && xs.back() > 4 * xs.front();
  if (xs.size() == 1) x = {xs[0] - 1, xs[0] + 1, area.left, area.right};
  const Scale y{0, y_ticks.back(), area.bottom, area.top};
  svg = open_svg(area.bottom + 42, y_label) + svg + plot_area(area) + y_axis(area, y, y_ticks, y_label) +
        x_axis(area, x, xs, x_label);
  for (std::size_t index = 0; index < series.size(); ++index) {
    std::string path;
    std::string dots;
    for (const ChartPoint& point : series[index].points) {
      path += fmt::format("{}{:.2f} {:.2f}", path.empty() ? "M" : " L", x(point.x), y(point.y));
      dots += line(x(point.x), y(point.interval.low), x(point.x), y(point.interval.high),
                   fmt::format("mark whisker s{}", index));
      dots += fmt::format(
          R"(<circle class="mark fill s{}" cx="{:.2f}" cy="{:.2f}" r="4"><title>{}{}: {} ({} to {})</title></circle>)"
          "\n",
          index, x(point.x), y(point.y), series[index].name.empty() ? "" : escape_html(series[index].name) + ", ",
          short_number(point.x), short_number(point.y), short_number(point.interval.low),
          short_number(point.interval.high));
    }
    svg += fmt::format(R"(<path class="mark curve s{}" d="{}"/>)"
                       "\n",
                       index, path) +
           dots;
  }
  return svg + "</svg>\n";
}

std::string draw_bars(std::span<const ChartGroup> groups, std::string_view unit) {
  std::vector<std::string> names;
  double most = 0;
  std::size_t bars = 0;
  std::size_t longest = 4;
  std::size_t longest_note = 0;
  for (const ChartGroup& group : groups) {
    longest = std::max(longest, group.name.size());
    for (const ChartBar& bar : group.bars) {
      if (std::ranges::find(names, bar.name) == names.end()) names.push_back(bar.name);
      most = std::max({most, bar.value, bar.interval ? bar.interval->high : 0});
      longest_note = std::max(longest_note, short_number(bar.value).size() + bar.note.size() + 2);
      ++bars;
    }
  }
  double legend_height = 0;
  std::string body = names.size() > 1 ? legend(names, "box", 2, &legend_height) : "";
  const double left = std::min(kLetter * static_cast<double>(longest) + 16, 0.4 * kWidth);
  const double right = kWidth - std::min(kLetter * static_cast<double>(longest_note) + 14, 0.3 * kWidth);
  const double height = 16 * static_cast<double>(bars) + 14 * static_cast<double>(groups.size());
  const Area area{left, 6 + legend_height, right, 6 + legend_height + height};
  std::vector<double> ticks = round_ticks(0, most > 0 ? most : 1, 5);
  const Scale x{0, ticks.back(), area.left, area.right};
  body += plot_area(area) + x_axis(area, x, ticks, unit);
  double y = area.top + 7;
  for (const ChartGroup& group : groups) {
    const double middle = y + 8 * static_cast<double>(group.bars.size());
    body += text_at(area.left - 8, middle + 4, "end", shorten(group.name, area.left - 12), "label");
    for (const ChartBar& bar : group.bars) {
      const auto color = static_cast<std::size_t>(std::ranges::find(names, bar.name) - names.begin());
      body += fmt::format(
          R"(<rect class="mark fill s{}" x="{:.2f}" y="{:.2f}" width="{:.2f}" height="13" rx="2"><title>{} {}: {} {}</title></rect>)"
          "\n",
          color, area.left, y + 1.5, std::max(x(bar.value) - area.left, 0.5), escape_html(group.name),
          escape_html(bar.name), short_number(bar.value), escape_html(unit));
      if (bar.interval) body += line(x(bar.interval->low), y + 8, x(bar.interval->high), y + 8, "mark whisker ink");
      body += text_at(area.right + 8, y + 12, "start",
                      bar.note.empty() ? short_number(bar.value) : short_number(bar.value) + "  " + bar.note, "label");
      y += 16;
    }
    y += 14;
  }
  return open_svg(area.bottom + 42, "bars") + body + "</svg>\n";
}

std::string draw_limits(std::span<const ChartLimit> rows, std::string_view value_name, std::string_view other_name,
                        std::string_view limit_name) {
  double low = 1e300;
  double high = 0;
  std::size_t longest = 4;
  std::size_t longest_note = 0;
  const auto see = [&](double value) {
    if (!(value > 0) || !std::isfinite(value)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  };
  for (const ChartLimit& row : rows) {
    see(row.value);
    if (row.other) see(*row.other);
    if (row.limit) see(*row.limit);
    longest = std::max(longest, row.name.size());
    longest_note = std::max(longest_note, row.note.size());
  }
  if (high == 0) low = high = 1;  // all exact
  const double first = std::floor(std::log10(low) - 0.2);
  const double last = std::max(std::ceil(std::log10(high) + 0.2), first + 1);
  const std::vector<std::string> names = {std::string(value_name), std::string(other_name), std::string(limit_name)};
  double legend_height = 0;
  std::string body = legend(names, "box", 2, &legend_height);
  const double left = std::min(kLetter * static_cast<double>(longest) + 16, 0.4 * kWidth);
  const double right = kWidth - std::min(kLetter * static_cast<double>(longest_note) + 14, 0.3 * kWidth);
  const double height = 24 * static_cast<double>(rows.size());
  const Area area{left, 6 + legend_height, right, 6 + legend_height + height};
  const Scale x{std::pow(10, first), std::pow(10, last), area.left + 6, area.right - 6, true};
  std::vector<double> ticks;
  for (int step = 0; first + step <= last; ++step) ticks.push_back(std::pow(10, first + step));
  body += plot_area(area) + x_axis(area, x, ticks, "error");
  double y = area.top + 12;
  for (const ChartLimit& row : rows) {
    body += text_at(area.left - 8, y + 4, "end", shorten(row.name, area.left - 12), "label");
    body += line(area.left, y, area.right, y, "grid");
    if (row.limit) body += line(x(*row.limit), y - 9, x(*row.limit), y + 9, "mark whisker s2");
    if (row.other && *row.other > 0) {
      body +=
          fmt::format(R"(<circle class="mark hollow s1" cx="{:.2f}" cy="{:.2f}" r="4.5"><title>{}</title></circle>)",
                      x(*row.other), y, short_number(*row.other));
    }
    const double place = row.value > 0 ? x(row.value) : x.from;
    body += fmt::format(R"(<circle class="mark fill s0" cx="{:.2f}" cy="{:.2f}" r="4.5"><title>{}</title></circle>)",
                        place, y, short_number(row.value));
    body += text_at(area.right + 8, y + 4, "start", row.note, "label");
    y += 24;
  }
  return open_svg(area.bottom + 42, "errors and limits") + body + "</svg>\n";
}

}  // namespace kpt
