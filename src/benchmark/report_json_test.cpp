#include "benchmark/report_json.h"

#include <random>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace kpt {
namespace {

BenchmarkReport make_report(std::mt19937_64& random) {
  BenchmarkReport report;
  report.context.model = "m.pt2";
  report.context.device = "nvidia:0";
  report.context.device_model = "NVIDIA H200";
  report.context.threads = 2;
  report.batch_symbol = "s0";
  PointReport point;
  point.sizes = {{"s0", 4}, {"s1", 128}};
  point.items = 4;
  std::lognormal_distribution<double> times(2, 0.3);
  for (int index = 0; index < 50; ++index) point.measurement.samples_ms.push_back(times(random));
  point.measurement.summary = summarize(point.measurement.samples_ms);
  point.measurement.cpu_ms = 9;
  point.peak_bytes = 1234;
  point.device_peak_bytes = 5678;
  report.points.push_back(point);
  StartupReport startup;
  startup.kind = "warm cache";
  startup.samples_ms = {50, 60, 55};
  startup.summary = summarize(startup.samples_ms);
  report.startups.push_back(startup);
  return report;
}

TEST(ReportJson, HasTheMembersThatReadersOfGoogleBenchmarkNeed) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  const BenchmarkReport report = make_report(random);
  const auto json = to_google_benchmark(report);
  EXPECT_EQ(json.at("context").at("device"), "nvidia:0");
  EXPECT_EQ(json.at("context").at("device_model"), "NVIDIA H200");
  EXPECT_EQ(json.at("context").at("model_threads"), 2);
  for (const auto& row : json.at("benchmarks")) {
    for (const char* member : {"name", "run_name", "run_type", "iterations", "real_time", "cpu_time", "time_unit"}) {
      EXPECT_TRUE(row.contains(member)) << member;
    }
    EXPECT_EQ(row.at("time_unit"), "ms");
    if (row.at("run_type") == "aggregate") {
      EXPECT_EQ(row.at("name"),
                row.at("run_name").get<std::string>() + "_" + row.at("aggregate_name").get<std::string>());
    }
  }
}

TEST(ReportJson, RowsCarryTheFiguresOfThePoint) {
  std::mt19937_64 random(std::random_device{}());
  const BenchmarkReport report = make_report(random);
  const auto json = to_google_benchmark(report);
  const auto& first = json.at("benchmarks").at(0);
  const SampleSummary& summary = report.points[0].measurement.summary;
  EXPECT_EQ(first.at("name"), "m.pt2/batch:4/s1:128");
  EXPECT_EQ(first.at("real_time"), summary.mean);
  EXPECT_EQ(first.at("iterations"), 50);
  EXPECT_EQ(first.at("peak_resident_bytes"), 1234);
  EXPECT_EQ(first.at("peak_device_bytes"), 5678);
  EXPECT_DOUBLE_EQ(first.at("items_per_second"), 4000 / summary.median);
  bool median = false;
  bool startup = false;
  for (const auto& row : json.at("benchmarks")) {
    if (row.at("name") == "m.pt2/batch:4/s1:128_median") {
      median = true;
      EXPECT_EQ(row.at("real_time"), summary.median);
      EXPECT_EQ(row.at("interval_low"), summary.median_interval.low);
    }
    startup = startup || row.at("name") == "m.pt2/startup/warm_cache_median";
  }
  EXPECT_TRUE(median);
  EXPECT_TRUE(startup);
}

}  // namespace
}  // namespace kpt
