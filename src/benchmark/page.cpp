#include "benchmark/page.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "benchmark/chart.h"
#include "benchmark/page_style.h"

namespace kpt {
namespace {

constexpr std::size_t kMaxHistograms = 12;

std::string point_name(const PointReport& point) { return point.label.empty() ? "as exported" : point.label; }

std::string section(std::string_view title, std::string_view explanation, std::string_view body) {
  const std::string words = explanation.empty() ? "" : "<p>" + escape_html(explanation) + "</p>\n";
  return fmt::format("<section>\n<h2>{}</h2>\n{}{}</section>\n", escape_html(title), words, body);
}

std::string tile(std::string_view name, std::string_view value, std::string_view unit) {
  return fmt::format(
      "<div class=\"tile\"><span class=\"name\">{}</span><span class=\"value\">{} <small>{}</small>"
      "</span></div>\n",
      escape_html(name), escape_html(value), escape_html(unit));
}

std::string make_tiles(const BenchmarkReport& report) {
  if (report.points.empty()) return "";
  const PointReport& first = report.points.front();
  const SampleSummary& summary = first.measurement.summary;
  const std::string where = report.points.size() > 1 ? " at " + point_name(first) : "";
  std::string tiles = tile("median" + where, short_number(summary.median), "ms");
  tiles += tile("p99" + where, short_number(summary.p99), "ms");
  const auto best = std::ranges::max_element(
      report.points, [](const auto& a, const auto& b) { return a.items_per_second() < b.items_per_second(); });
  tiles += tile(report.points.size() > 1 ? "most items per second, at " + point_name(*best) : "items per second",
                short_number(best->items_per_second()), "");
  std::uint64_t peak = 0;
  std::uint64_t device_peak = 0;
  for (const PointReport& point : report.points) {
    peak = std::max(peak, point.peak_bytes.value_or(0));
    device_peak = std::max(device_peak, point.device_peak_bytes.value_or(0));
  }
  if (peak > 0) tiles += tile("peak memory", format_bytes(peak), "");
  if (device_peak > 0) tiles += tile("peak memory of the device", format_bytes(device_peak), "");
  for (const StartupReport& startup : report.startups) {
    tiles += tile("start-up, " + startup.kind, short_number(startup.summary.median), "ms");
  }
  return "<div class=\"tiles\">\n" + tiles + "</div>\n";
}

std::string make_distributions(const BenchmarkReport& report) {
  std::string body = "<div class=\"charts\">\n";
  for (std::size_t index = 0; index < std::min(report.points.size(), kMaxHistograms); ++index) {
    const PointReport& point = report.points[index];
    body += fmt::format("<figure><figcaption>{}</figcaption>\n{}</figure>\n", escape_html(point_name(point)),
                        draw_histogram(point.measurement.samples_ms, point.measurement.summary));
  }
  body += "</div>\n";
  if (report.points.size() > kMaxHistograms) {
    body += fmt::format("<p>The first {} of {} sizes; the table has all.</p>\n", kMaxHistograms, report.points.size());
  }
  return section("Latency", "How often a run took how long. Nothing is left out but the warm-up.", body);
}

// The symbol with the most values; the others tell the curves apart.
std::string find_sweep_symbol(const BenchmarkReport& report) {
  std::map<std::string, std::set<std::int64_t>> values;
  for (const PointReport& point : report.points) {
    for (const auto& [symbol, value] : point.sizes) values[symbol].insert(value);
  }
  std::string found;
  std::size_t most = 1;
  for (const auto& [symbol, seen] : values) {
    if (seen.size() > most || (seen.size() == most && most > 1 && symbol == report.batch_symbol)) {
      found = symbol;
      most = seen.size();
    }
  }
  return found;
}

std::string make_sweep(const BenchmarkReport& report) {
  const std::string symbol = find_sweep_symbol(report);
  if (symbol.empty()) return "";
  std::vector<ChartSeries> times;
  std::vector<ChartSeries> rates;
  std::size_t left_out = 0;
  for (const PointReport& point : report.points) {
    Sizes others = point.sizes;
    others.erase(symbol);
    const std::string name = describe_sizes(others, report.batch_symbol);
    auto place = std::ranges::find(times, name, &ChartSeries::name);
    if (place == times.end()) {
      if (times.size() == kMaxSeries) {
        ++left_out;
        continue;
      }
      times.push_back({name, {}});
      rates.push_back({name, {}});
      place = times.end() - 1;
    }
    const SampleSummary& summary = point.measurement.summary;
    const auto x = static_cast<double>(point.sizes.at(symbol));
    const double items = 1e3 * static_cast<double>(point.items);
    place->points.push_back({x, summary.median, summary.median_interval});
    rates[static_cast<std::size_t>(place - times.begin())].points.push_back(
        {x, point.items_per_second(), {items / summary.median_interval.high, items / summary.median_interval.low}});
  }
  for (auto* all : {&times, &rates}) {
    for (ChartSeries& one : *all) std::ranges::sort(one.points, {}, &ChartPoint::x);
  }
  const std::string x_name = symbol == report.batch_symbol ? "batch" : symbol;
  std::string body = fmt::format(
      "<div class=\"charts\">\n<figure><figcaption>Latency</figcaption>\n{}</figure>\n"
      "<figure><figcaption>Throughput</figcaption>\n{}</figure>\n</div>\n",
      draw_curves(times, x_name, "median, ms"), draw_curves(rates, x_name, "items per second"));
  if (left_out > 0) body += fmt::format("<p>{} sizes are in the table alone.</p>\n", left_out);
  return section(
      "Sizes", "Median and its 95 % interval for each size. Items are counted along the first axis of the first input.",
      body);
}

std::string make_comparison(const PageContent& content) {
  if (content.compared.empty()) return "";
  std::vector<ChartGroup> groups;
  for (const ComparedEntry& entry : content.compared) {
    std::string name = entry.after.key.what;
    if (name == "run") name = describe_sizes(entry.after.key.sizes, content.report->batch_symbol);
    const SampleSummary& before = entry.before.summary;
    const SampleSummary& after = entry.after.summary;
    groups.push_back(
        {name.empty() ? "as exported" : name,
         {{"before", before.median, before.median_interval, ""},
          {"now", after.median, after.median_interval,
           fmt::format("{} ({:.2f}×)", to_string(entry.comparison.verdict), before.median / after.median)}}});
  }
  const ComparedEntry& first = content.compared.front();
  return section(
      "Before and now",
      fmt::format("Against {} of {} (kpt {}, commit {}). Better or worse: the 95 % intervals do not touch and "
                  "the medians differ by more than {:g} %.",
                  first.before.key.model, first.before.date, first.before.key.kpt_version, first.before.commit,
                  100 * content.least_effect),
      "<figure>\n" + draw_bars(groups, "ms") + "</figure>\n");
}

std::string make_startup(const BenchmarkReport& report) {
  if (report.startups.empty()) return "";
  std::vector<ChartGroup> groups;
  for (const StartupReport& startup : report.startups) {
    groups.push_back({startup.kind,
                      {{"start to first answer", startup.summary.median, startup.summary.median_interval, ""},
                       {"of it loading the model", startup.load_ms, std::nullopt, ""},
                       {"of it the first run", startup.run_ms, std::nullopt, ""}}});
  }
  return section("Start-up", "Fresh processes, from their start to their first answer; medians.",
                 "<figure>\n" + draw_bars(groups, "ms") + "</figure>\n");
}

std::string make_errors(const PageContent& content) {
  std::string body;
  for (const char* measure : {"rms error", "1 − cosine"}) {
    std::vector<ChartLimit> rows;
    for (const OutputError& error : content.errors) {
      if (error.measure != measure) continue;
      rows.push_back({error.output, error.error, error.plain, error.limit, error.passed ? "passed" : "refused"});
    }
    if (rows.empty()) continue;
    body += fmt::format("<figure><figcaption>{}</figcaption>\n{}</figure>\n", escape_html(measure),
                        draw_limits(rows, "this model", "plain run", "limit"));
  }
  if (body.empty()) return "";
  return section(
      "Error and tolerance",
      "Distance of each output from fp64, worst draw, as the accuracy gate found it when the artifact was made. The "
      "limit is the error that the gate allowed; there is none where every element was close to the plain run's, where "
      "several draws were judged together, and in artifacts that did not keep it.",
      body);
}

std::string cells(const std::vector<std::string>& texts, std::string_view kind) {
  std::string row = "<tr>";
  for (const std::string& text : texts) row += fmt::format("<{0}>{1}</{0}>", kind, escape_html(text));
  return row + "</tr>\n";
}

std::string bytes_text(const std::optional<std::uint64_t>& bytes) { return bytes ? format_bytes(*bytes) : "–"; }

std::string make_table(const BenchmarkReport& report) {
  std::string rows = cells({"size", "median ms", "95 % interval", "MAD", "p90", "p99", "least", "most", "items/s",
                            "processor ms", "peak memory", "device memory", "runs", "far off"},
                           "th");
  for (const PointReport& point : report.points) {
    const SampleSummary& summary = point.measurement.summary;
    rows +=
        cells({point_name(point), short_number(summary.median),
               short_number(summary.median_interval.low) + " – " + short_number(summary.median_interval.high),
               short_number(summary.mad), short_number(summary.p90), short_number(summary.p99),
               short_number(summary.least), short_number(summary.most), short_number(point.items_per_second()),
               short_number(point.measurement.cpu_ms), bytes_text(point.peak_bytes),
               bytes_text(point.device_peak_bytes), std::to_string(summary.count), std::to_string(summary.outliers)},
              "td");
  }
  return section("All figures", "Times in milliseconds. Far off: more than five robust deviations from the median.",
                 "<div class=\"scroll\"><table>\n" + rows + "</table></div>\n");
}

// "nvidia:0 (NVIDIA H200)".
std::string describe_device(const BenchmarkContext& context) {
  return context.device_model.empty() ? context.device : fmt::format("{} ({})", context.device, context.device_model);
}

std::string make_origin(const BenchmarkReport& report) {
  const BenchmarkContext& context = report.context;
  std::string rows;
  const std::pair<const char*, std::string> facts[] = {
      {"model", context.model},
      {"sha256", context.model_sha256},
      {"ran on", describe_device(context)},
      {"processor", fmt::format("{}, {} usable", context.cpu_model, context.cpus)},
      {"threads", std::to_string(context.threads)},
      {"kpt", fmt::format("{}, commit {}, {}", context.kpt_version, context.commit, context.build_type)},
      {"libtorch", context.torch_version},
      {"measured", context.date}};
  for (const auto& [name, value] : facts) {
    if (!value.empty()) rows += cells({name, value}, "td");
  }
  std::string notes;
  for (const std::string& note : report.notes) notes += fmt::format("<p>{}</p>\n", escape_html(note));
  return section("Where and with what", "",
                 "<div class=\"scroll\"><table class=\"facts\">\n" + rows + "</table></div>\n" + notes);
}

// What can be drawn of one verdict: the error against fp64 beside what the gate allowed it, and where the cosine
// decided how far that is from one.
std::vector<OutputError> read_verdict(const nlohmann::json& verdict, const std::string& rule) {
  const auto number = [&](const char* key) -> std::optional<double> {
    const auto place = verdict.find(key);
    if (place == verdict.end() || !place->is_number()) return std::nullopt;
    return place->get<double>();
  };
  OutputError error;
  error.output = verdict.value("name", "");
  error.passed = verdict.value("passed", false);
  error.measure = "rms error";
  error.error = number("candidate_error").value_or(0);
  error.plain = number("plain_error");
  error.limit = number("allowed_error");
  if (rule != "cosine") return {error};
  OutputError direction{error.output, "1 − cosine", std::max(0.0, 1 - number("cosine").value_or(0)),
                        {},           0.01,         error.passed};
  if (!error.limit) return {direction};
  return {direction, error};  // the user's bound on the error beside it
}

}  // namespace

Result<std::vector<OutputError>> read_output_errors(std::string_view report) {
  const auto limit = [](int depth, nlohmann::json::parse_event_t, nlohmann::json&) { return depth <= 16; };
  auto json = nlohmann::json::parse(report, limit, /*allow_exceptions=*/false);
  if (!json.is_object()) return Status(StatusCode::kCorruptData, "the artifact's report is no JSON object");
  if (json.contains("optimized") && json.at("optimized").is_object()) {  // compiled ahead of time, with a level
    json = nlohmann::json(std::move(json.at("optimized")));
  }
  const nlohmann::json* gate = &json;
  for (const char* key : {"gate", "verdict"}) {
    if (json.contains(key) && json.at(key).is_object()) gate = &json.at(key);
  }
  std::vector<OutputError> errors;
  if (!gate->contains("outputs") || !gate->at("outputs").is_array()) return errors;
  try {
    for (const auto& verdict : gate->at("outputs")) {
      const std::string rule = verdict.value("rule", "");
      if (rule == "equal" || rule == "form") continue;  // no size of an error to draw
      for (OutputError& error : read_verdict(verdict, rule)) {
        const auto place = std::ranges::find_if(errors, [&](const OutputError& other) {
          return other.output == error.output && other.measure == error.measure;
        });
        if (place == errors.end()) {
          errors.push_back(std::move(error));
        } else if (error.error > place->error) {
          *place = std::move(error);  // the worst draw
        }
      }
    }
  } catch (const nlohmann::json::exception&) {
    return Status(StatusCode::kCorruptData, "the verdict in the artifact's report does not have the form of one");
  }
  return errors;
}

std::string make_page(const PageContent& content) {
  const BenchmarkReport& report = *content.report;
  const BenchmarkContext& context = report.context;
  std::string page = fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
      "img-src data:\">\n<link rel=\"icon\" href=\"data:,\">\n"
      "<title>{0}: benchmark</title>\n<style>\n{1}</style>\n</head>\n<body>\n<main>\n<header>\n<h1>{0}</h1>\n"
      "<p>{2}</p>\n</header>\n",
      escape_html(context.model), kPageStyle,
      escape_html(fmt::format("on {} ({}), {} thread{}, {}", context.device,
                              context.device_model.empty() ? context.cpu_model : context.device_model, context.threads,
                              context.threads == 1 ? "" : "s", context.date)));
  page += make_tiles(report);
  page += make_comparison(content);
  if (!report.points.empty()) page += make_distributions(report);
  page += make_sweep(report);
  page += make_startup(report);
  page += make_errors(content);
  if (!report.points.empty()) page += make_table(report);
  page += make_origin(report);
  return page + "</main>\n</body>\n</html>\n";
}

}  // namespace kpt
