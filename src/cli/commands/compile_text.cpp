#include "cli/commands/compile_text.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "cli/optimize_text.h"
#include "cli/program_text.h"
#include "cli/terminal.h"
#include "device/compile_figures_json.h"
#include "ir/own_operators.h"
#include "optimize/optimize_json.h"

namespace kpt::cli {

using Json = nlohmann::ordered_json;

namespace {

Json describe(const CompiledTarget& compiled) {
  Json json = {{"target", compiled.name}, {"figures", compiled.has_figures ? to_json(compiled.figures) : Json()}};
  json["findings"] = to_json(compiled.findings);
  const auto total = compiled.figures.total_bytes();
  json["total_bytes"] = total ? Json(*total) : Json();
  const bool memory_known = compiled.rates && compiled.rates->memory_bytes > 0;
  json["device_memory_bytes"] = memory_known ? Json(compiled.rates->memory_bytes) : Json();
  json["graph_flops"] = compiled.graph_flops ? Json(*compiled.graph_flops) : Json();
  // Neither was measured.
  json["estimates"] = {
      {"compiler_seconds", compiled.figures.compiler_seconds ? Json(*compiled.figures.compiler_seconds) : Json()},
      {"published_rates_seconds", compiled.our_seconds ? Json(*compiled.our_seconds) : Json()},
      {"dollars_per_hour", compiled.dollars_hour ? Json(*compiled.dollars_hour) : Json()}};
  const auto dollars = compiled.dollars_million_runs();
  json["estimates"]["dollars_per_million_runs"] = dollars ? Json(*dollars) : Json();
  return json;
}

Json describe(const LevelOutcome& outcome) {
  Json json = {{"name", std::string(level_name(outcome.level))},
               {"judged_on", outcome.report ? Json(outcome.report->device) : Json()},
               {"not_judged", outcome.not_judged},
               {"passes", Json::array()},
               {"report", outcome.report ? kpt::to_json(*outcome.report) : Json()}};
  for (const PassRecord& record : outcome.passes) {
    json["passes"].push_back({{"pass", record.pass}, {"changes", record.changes}, {"skipped", record.skipped}});
  }
  return json;
}

// As the predecessor's benchmark of its compiler names them; seconds.
struct CompileTimes {
  explicit CompileTimes(const std::vector<double>& seconds)
      : runs(seconds.size()),
        min_time(*std::ranges::min_element(seconds)),
        max_time(*std::ranges::max_element(seconds)),
        total_time(std::accumulate(seconds.begin(), seconds.end(), 0.0)),
        avg_time(total_time / static_cast<double>(runs)) {}

  std::size_t runs;
  double min_time;
  double max_time;
  double total_time;
  double avg_time;
};

Json describe_times(const std::vector<double>& seconds) {
  if (seconds.empty()) return {};
  const CompileTimes times(seconds);
  return {{"min_time", times.min_time},
          {"max_time", times.max_time},
          {"avg_time", times.avg_time},
          {"total_time", times.total_time},
          {"runs", times.runs}};
}

std::vector<std::vector<std::string>> time_rows(const CompiledTarget& compiled) {
  if (compiled.repeated.empty()) return {{"compiling took", fmt::format("{:.2f} s", compiled.compile_seconds)}};
  const CompileTimes times(compiled.repeated);
  return {{"runs", fmt::format("{} compilations, without the cache", times.runs)},
          {"min_time", fmt::format("{:.3f} s", times.min_time)},
          {"max_time", fmt::format("{:.3f} s", times.max_time)},
          {"avg_time", fmt::format("{:.3f} s", times.avg_time)},
          {"total_time", fmt::format("{:.3f} s", times.total_time)}};
}

std::string memory_text(const std::optional<std::uint64_t>& bytes) { return bytes ? format_bytes(*bytes) : "not told"; }

// 1234567 → "1.235 M".
std::string scaled(const std::optional<double>& value, std::string_view unit) {
  if (!value) return "not told";
  constexpr std::string_view kPrefixes[] = {"", "k", "M", "G", "T", "P"};
  double rest = *value;
  std::size_t step = 0;
  while (rest >= 1000 && step + 1 < std::size(kPrefixes)) {
    rest /= 1000;
    ++step;
  }
  return fmt::format("{:.4g} {}{}", rest, kPrefixes[step], unit);
}

std::string seconds_text(const std::optional<double>& seconds) {
  if (!seconds) return "not told";
  return *seconds < 1e-3 ? fmt::format("{:.3g} us", *seconds * 1e6) : fmt::format("{:.4g} ms", *seconds * 1e3);
}

void add_price(const CompiledTarget& compiled, std::vector<std::vector<std::string>>& rows) {
  if (!compiled.dollars_hour) return;
  const int devices = compiled.rates ? compiled.rates->devices_per_chip : 1;
  rows.push_back({"price", fmt::format("{:.2f} $ per chip and hour, as given{}", *compiled.dollars_hour,
                                       devices == 1 ? "" : fmt::format("; a chip is {} devices", devices))});
  if (const auto dollars = compiled.dollars_million_runs()) {
    const bool told = compiled.figures.compiler_seconds.has_value();
    rows.push_back({"price of a million runs, estimate",
                    fmt::format("{:.3g} $ by {}", *dollars, told ? "the compiler's time" : "published rates")});
  }
}

// One program for the whole graph, as the compiler describes it.
std::vector<std::vector<std::string>> program_rows(const CompiledTarget& compiled) {
  const CompileFigures& figures = compiled.figures;
  std::vector<std::vector<std::string>> rows = {
      {"code", memory_text(figures.code_bytes)},
      {"memory: arguments", memory_text(figures.argument_bytes)},
      {"memory: outputs", memory_text(figures.output_bytes)},
      {"memory: temporaries", memory_text(figures.temporary_bytes)},
      {"memory: peak", memory_text(figures.peak_bytes)},
      {"memory: of the device", compiled.rates ? format_bytes(compiled.rates->memory_bytes) : "not told"},
      {"work", fmt::format("{} ({} counted from the graph)", scaled(figures.flops, "FLOP"),
                           scaled(compiled.graph_flops, "FLOP"))},
      {"memory traffic", scaled(figures.bytes_accessed, "B")},
      {"time, estimate of the compiler", seconds_text(figures.compiler_seconds)},
      {"time, estimate from published rates", seconds_text(compiled.our_seconds)},
  };
  add_price(compiled, rows);
  return rows;
}

// Launches of kernels: no compiler has seen the whole graph, so the estimate of its time is the graph's own.
std::vector<std::vector<std::string>> launch_rows(const CompiledTarget& compiled) {
  const CompileFigures& figures = compiled.figures;
  const std::string free_sizes = "known when sizes are";
  std::vector<std::vector<std::string>> rows = {
      {"code", fmt::format("{}, {} kernels launched", memory_text(figures.code_bytes), figures.kernels.size())},
      {"memory: of a run", figures.temporary_bytes ? format_bytes(*figures.temporary_bytes) : free_sizes},
      {"memory: with weights", figures.peak_bytes ? format_bytes(*figures.peak_bytes) : free_sizes},
      {"work", compiled.graph_flops ? scaled(compiled.graph_flops, "FLOP") + ", counted from the graph" : free_sizes},
      {"time, estimate from published rates",
       compiled.rates && !compiled.graph_flops ? free_sizes : seconds_text(compiled.our_seconds)},
  };
  add_price(compiled, rows);
  return rows;
}

// Nodes that the engine runs one by one: it knows them all, and no code was made.
std::vector<std::vector<std::string>> node_rows(const CompiledTarget& compiled) {
  const std::vector<ir::Node>& nodes = compiled.program->graph().nodes;
  const auto own =
      std::ranges::count_if(nodes, [](const ir::Node& node) { return node.target.starts_with(ir::kOwnPrefix); });
  return {{"target", fmt::format("{}, one device", compiled.program->target())},
          {"nodes",
           fmt::format("{}, {} of them kernels of ours and the others libtorch's; all are there", nodes.size(), own)},
          {"code", "none: kernels are chosen when the file is loaded"},
          {"work", compiled.graph_flops ? scaled(compiled.graph_flops, "FLOP") + ", counted from the graph"
                                        : "known when sizes are"}};
}

std::vector<std::vector<std::string>> figure_rows(const CompiledTarget& compiled) {
  const CompileFigures& figures = compiled.figures;
  std::vector<std::vector<std::string>> rows = {
      {"target", fmt::format("{} ({}), one device", compiled.program->target(), figures.device_kind)},
      {"compiler", figures.compiler}};
  for (auto& row : figures.kernels.empty() ? program_rows(compiled) : launch_rows(compiled)) rows.push_back(row);
  return rows;
}

std::string render_level(const LevelOutcome& outcome, bool color) {
  if (outcome.report) return render_report(*outcome.report, color);
  return format_table({{"level", std::string(level_name(outcome.level))},
                       {"applied", applied_passes(outcome.passes)},
                       {"gate", "not judged: " + outcome.not_judged}});
}

std::string render_target(const CompiledTarget& compiled, bool color) {
  if (compiled.program == nullptr) return render_level(*compiled.level, color);
  const CompileFigures& figures = compiled.figures;
  std::vector<std::vector<std::string>> rows = compiled.has_figures ? figure_rows(compiled) : node_rows(compiled);
  if (compiled.statistics) rows.push_back({"compile cache", to_text(*compiled.statistics)});
  for (auto& row : time_rows(compiled)) rows.push_back(std::move(row));
  std::string text = format_table(rows);
  if (compiled.level) text += "\n" + render_level(*compiled.level, color);
  if (!figures.kernels.empty()) text += "\n" + render_kernels(figures.kernels);
  if (!compiled.findings.empty()) text += "\n" + render(compiled.findings);
  return text;
}

}  // namespace

std::optional<double> CompiledTarget::dollars_million_runs() const {
  const auto seconds = figures.compiler_seconds ? figures.compiler_seconds : our_seconds;
  if (!dollars_hour || !seconds) return std::nullopt;
  return *dollars_hour / (rates ? rates->devices_per_chip : 1) * *seconds / 3600 * 1e6;
}

Json to_json(const std::vector<ModelFinding>& findings) {
  Json list = Json::array();
  for (const ModelFinding& finding : findings) {
    list.push_back({{"kind", to_string(finding.kind)},
                    {"refuses", finding.refuses},
                    {"place", finding.place},
                    {"text", finding.text}});
  }
  return list;
}

Json to_json(const CompileOutcome& outcome) {
  Json json = {{"targets", Json::array()}};
  for (const CompiledTarget& compiled : outcome.targets) {
    Json entry = describe(compiled);
    entry["level"] = compiled.level ? describe(*compiled.level) : Json();
    entry["compile_seconds"] = compiled.program ? Json(compiled.compile_seconds) : Json();
    entry["benchmark"] = describe_times(compiled.repeated);
    entry["statistics"] = compiled.statistics ? kpt::to_json(*compiled.statistics) : Json();
    entry["program_bytes"] = compiled.bytes.size();
    json["targets"].push_back(std::move(entry));
  }
  json["written"] = outcome.written.empty() ? Json() : Json(outcome.written);
  json["seconds"] = outcome.seconds;
  return json;
}

Json make_report(const CompiledTarget& compiled, const std::map<std::string, std::int64_t, std::less<>>& sizes) {
  Json report = {{"compiled", describe(compiled)}};
  for (const auto& [name, size] : sizes) report["sizes"][name] = size;
  if (!compiled.level) return report;
  if (compiled.level->report) {
    report["optimized"] = kpt::to_json(*compiled.level->report);
  } else {
    report["not_judged"] = describe(*compiled.level);
  }
  return report;
}

std::string render(const std::vector<ModelFinding>& findings) {
  std::string text;
  for (const ModelFinding& finding : findings) {
    text += fmt::format("{} {}{}{}\n", finding.refuses ? "refused:" : "costs time:", finding.place,
                        finding.place.empty() ? "" : ": ", finding.text);
  }
  return text;
}

std::string render(const CompileOutcome& outcome, bool color) {
  std::string text;
  std::uint64_t bytes = 0;
  for (const CompiledTarget& compiled : outcome.targets) {
    text += (text.empty() ? "" : "\n") + render_target(compiled, color);
    bytes += compiled.bytes.size();
  }
  if (outcome.refused()) return text;
  if (!outcome.written.empty()) {
    const std::size_t count = outcome.targets.size();
    text += fmt::format("\nwrote {} with {} of {}\n", outcome.written,
                        count == 1 ? "a program" : fmt::format("{} programs", count), format_bytes(bytes));
  }
  const bool ran = std::ranges::any_of(
      outcome.targets, [](const CompiledTarget& compiled) { return compiled.level && compiled.level->report; });
  return text + fmt::format("compiled in {:.1f} s; {}: all figures are the compiler's or computed\n", outcome.seconds,
                            ran ? "the gate ran the model, and nothing was timed" : "nothing was run");
}

}  // namespace kpt::cli
