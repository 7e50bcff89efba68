#include "cli/commands/bench_print.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/text.h"
#include "cli/terminal.h"

namespace kpt::cli {
namespace {

using Rows = std::vector<std::vector<std::string>>;

std::vector<std::string> header(std::vector<std::string> cells, bool color) {
  for (std::string& cell : cells) cell = paint(cell, Color::kBold, color);
  return cells;
}

std::string interval_text(const Interval& interval) {
  return fmt::format("{}–{}", format_figure(interval.low), format_figure(interval.high));
}

std::string bytes_text(const std::optional<std::uint64_t>& bytes) { return bytes ? format_bytes(*bytes) : "–"; }

std::string sample_text(const SampleSummary& summary) {
  return summary.outliers == 0 ? std::to_string(summary.count)
                               : fmt::format("{} ({} far off)", summary.count, summary.outliers);
}

std::string format_points(const BenchmarkReport& report, bool color) {
  const bool on_device =
      std::ranges::any_of(report.points, [](const PointReport& point) { return point.device_peak_bytes.has_value(); });
  std::vector<std::string> titles = {"size", "median (p50) ms", "95 % interval", "MAD",        "p90",
                                     "p99",  "items/s",         "peak memory",   "own memory", "samples"};
  if (on_device) titles.insert(titles.end() - 1, "device memory");
  Rows rows = {header(std::move(titles), color)};
  for (const PointReport& point : report.points) {
    const SampleSummary& summary = point.measurement.summary;
    rows.push_back({point.label.empty() ? "as exported" : point.label, format_figure(summary.median),
                    interval_text(summary.median_interval), format_figure(summary.mad), format_figure(summary.p90),
                    format_figure(summary.p99), format_figure(point.items_per_second()), bytes_text(point.peak_bytes),
                    bytes_text(point.grown_bytes), sample_text(summary)});
    if (on_device) rows.back().insert(rows.back().end() - 1, bytes_text(point.device_peak_bytes));
  }
  return format_table(rows);
}

std::string format_startups(const BenchmarkReport& report, bool color) {
  Rows rows = {header(
      {"start-up", "median ms", "95 % interval", "least", "loading ms", "first run ms", "peak memory", "processes"},
      color)};
  for (const StartupReport& startup : report.startups) {
    rows.push_back({startup.kind, format_figure(startup.summary.median), interval_text(startup.summary.median_interval),
                    format_figure(startup.summary.least), format_figure(startup.load_ms), format_figure(startup.run_ms),
                    format_bytes(startup.peak_bytes), std::to_string(startup.summary.count)});
  }
  return "\n" + format_table(rows);
}

std::string format_comparison(const BenchmarkReport& report, std::span<const ComparedEntry> compared,
                              double least_effect, bool color) {
  Rows rows = {header({"against baseline", "before ms", "now ms", "ratio", "95 % interval", "verdict"}, color)};
  for (const ComparedEntry& entry : compared) {
    const TimeComparison& result = entry.comparison;
    const Color tint = result.verdict == Verdict::kWorse    ? Color::kRed
                       : result.verdict == Verdict::kBetter ? Color::kGreen
                                                            : Color::kNone;
    std::string what = entry.after.key.what;
    if (what == "run") what = describe_sizes(entry.after.key.sizes, report.batch_symbol);
    rows.push_back({what.empty() ? "as exported" : what, format_figure(entry.before.summary.median),
                    format_figure(entry.after.summary.median), fmt::format("{:.3f}", result.ratio),
                    fmt::format("{:.3f}–{:.3f}", result.ratio_interval.low, result.ratio_interval.high),
                    paint(to_string(result.verdict), tint, color)});
  }
  return "\n" + format_table(rows) +
         fmt::format("better or worse: the intervals do not touch and the medians differ by more than {:g} %\n",
                     100 * least_effect);
}

}  // namespace

std::string format_figure(double value) {
  if (value == 0) return "0";
  const int digits = 3 - static_cast<int>(std::floor(std::log10(std::fabs(value))));
  return fmt::format("{:.{}f}", value, std::clamp(digits, 0, 6));
}

std::string format_benchmark(const BenchmarkReport& report, std::span<const ComparedEntry> compared,
                             double least_effect, bool color) {
  const BenchmarkContext& context = report.context;
  std::string text = fmt::format(
      "{} on {} ({}), {} thread{}, kpt {}{}, loaded in {} ms\n\n", context.model, context.device,
      context.device_model.empty() ? context.cpu_model : context.device_model, context.threads,
      context.threads == 1 ? "" : "s", context.kpt_version,
      context.torch_version.empty() ? "" : ", libtorch " + context.torch_version, format_figure(report.load_ms));
  text += format_points(report, color);
  if (!report.startups.empty()) text += format_startups(report, color);
  if (!compared.empty()) text += format_comparison(report, compared, least_effect, color);
  for (const PointReport& point : report.points) {
    if (point.measurement.cut_short) {
      text += fmt::format("note: {}: the time limit cut the sampling short\n",
                          point.label.empty() ? "as exported" : point.label);
    }
  }
  for (const std::string& note : report.notes) text += "note: " + note + "\n";
  return text;
}

}  // namespace kpt::cli
