#include "benchmark/report_json.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace kpt {
namespace {

using Json = nlohmann::ordered_json;

// "bert.pt2/s0:4/s1:128".
std::string row_name(const BenchmarkReport& report, const PointReport& point) {
  std::string name = report.context.model;
  for (const auto& [symbol, value] : point.sizes) {
    name += fmt::format("/{}:{}", symbol == report.batch_symbol ? "batch" : symbol, value);
  }
  return name;
}

// What iteration and aggregate rows share.
Json make_row(const std::string& name, const std::string& suffix, std::size_t family) {
  return {{"name", suffix.empty() ? name : name + "_" + suffix},
          {"family_index", family},
          {"per_family_instance_index", 0},
          {"run_name", name},
          {"run_type", suffix.empty() ? "iteration" : "aggregate"},
          {"repetitions", 1},
          {"threads", 1}};
}

void add_aggregates(Json& rows, const std::string& name, const SampleSummary& summary, double cpu_ms,
                    std::size_t family) {
  const std::pair<const char*, double> figures[] = {
      {"mean", summary.mean},  {"median", summary.median}, {"stddev", summary.stddev},
      {"mad", summary.mad},    {"min", summary.least},     {"max", summary.most},
      {"p50", summary.median}, {"p90", summary.p90},       {"p99", summary.p99}};
  for (const auto& [suffix, value] : figures) {
    Json row = make_row(name, suffix, family);
    row["aggregate_name"] = suffix;
    row["aggregate_unit"] = "time";
    row["iterations"] = summary.count;
    row["real_time"] = value;
    row["cpu_time"] = cpu_ms;
    row["time_unit"] = "ms";
    if (std::string_view(suffix) == "median") {
      row["interval_low"] = summary.median_interval.low;
      row["interval_high"] = summary.median_interval.high;
      row["confidence"] = 0.95;
    }
    rows.push_back(std::move(row));
  }
}

Json make_context(const BenchmarkContext& context) {
  return {{"date", context.date},
          {"host_name", context.host_name},
          {"executable", "kpt bench"},
          {"num_cpus", context.cpus},
          {"cpu_model", context.cpu_model},
          {"load_avg", context.load_average},
          {"library_build_type", context.build_type == "Debug" ? "debug" : "release"},
          {"model", context.model},
          {"model_sha256", context.model_sha256},
          {"device", context.device},
          {"device_model", context.device_model},
          {"model_threads", context.threads},
          {"kpt_version", context.kpt_version},
          {"kpt_commit", context.commit},
          {"torch_version", context.torch_version}};
}

}  // namespace

Json to_google_benchmark(const BenchmarkReport& report) {
  Json rows = Json::array();
  std::size_t family = 0;
  for (const PointReport& point : report.points) {
    const Measurement& measured = point.measurement;
    const std::string name = row_name(report, point);
    Json row = make_row(name, "", family);
    row["repetition_index"] = 0;
    row["iterations"] = measured.summary.count;
    row["real_time"] = measured.summary.mean;
    row["cpu_time"] = measured.cpu_ms;
    row["time_unit"] = "ms";
    row["items_per_second"] = point.items_per_second();
    row["items_per_run"] = point.items;
    row["warmup_runs"] = measured.warmup_runs;
    row["unsteady_samples"] = measured.unsteady;
    row["outliers"] = measured.summary.outliers;
    if (point.peak_bytes) row["peak_resident_bytes"] = *point.peak_bytes;
    if (point.grown_bytes) row["own_memory_growth_bytes"] = *point.grown_bytes;
    if (point.device_peak_bytes) row["peak_device_bytes"] = *point.device_peak_bytes;
    rows.push_back(std::move(row));
    add_aggregates(rows, name, measured.summary, measured.cpu_ms, family++);
  }
  for (const StartupReport& startup : report.startups) {
    std::string kind = startup.kind;
    std::ranges::replace(kind, ' ', '_');
    const std::string name = report.context.model + "/startup/" + kind;
    Json row = make_row(name, "", family);
    row["repetition_index"] = 0;
    row["iterations"] = startup.summary.count;
    row["real_time"] = startup.summary.mean;
    row["cpu_time"] = startup.cpu_ms;
    row["time_unit"] = "ms";
    row["load_ms"] = startup.load_ms;
    row["first_run_ms"] = startup.run_ms;
    row["peak_resident_bytes"] = startup.peak_bytes;
    rows.push_back(std::move(row));
    add_aggregates(rows, name, startup.summary, startup.cpu_ms, family++);
  }
  Json json = {{"context", make_context(report.context)}, {"benchmarks", std::move(rows)}};
  json["context"]["load_ms"] = report.load_ms;
  if (!report.notes.empty()) json["context"]["notes"] = report.notes;
  return json;
}

}  // namespace kpt
