#include "benchmark/baseline.h"

#include <fstream>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/files.h"

namespace kpt {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class BaselineFile : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = std::filesystem::temp_directory_path() / ("kpt-baseline-" + std::to_string(std::random_device{}()));
  }
  void TearDown() override {
    std::error_code error;
    std::filesystem::remove(path_, error);
  }
  void write(const std::string& text) const { std::ofstream(path_) << text; }
  std::filesystem::path path_;
};

BenchmarkReport make_report(double scale = 1) {
  const std::uint64_t seed = std::random_device{}();
  std::mt19937_64 random(seed);
  std::normal_distribution<double> noise(10 * scale, 0.05 * scale);
  BenchmarkReport report;
  report.context = {"2026-11-15T12:00:00Z",
                    "host",
                    "m.pt2",
                    std::string(64, 'a'),
                    "cpu",
                    "Neoverse-V1",
                    2,
                    2,
                    "0.5.0",
                    "c0ffee",
                    "Release",
                    "2.15.0"};
  report.batch_symbol = "s0";
  for (const std::int64_t batch : {1, 8}) {
    PointReport point;
    point.sizes = {{"s0", batch}};
    for (int index = 0; index < 100; ++index) {
      point.measurement.samples_ms.push_back(static_cast<double>(batch) * noise(random));
    }
    point.measurement.summary = summarize(point.measurement.samples_ms);
    report.points.push_back(point);
  }
  return report;
}

Result<std::vector<ComparedEntry>> compare(const std::vector<BaselineEntry>& baseline, const BenchmarkReport& report,
                                           const BaselineDifferences& allowed = {}) {
  std::vector<std::string> missing;
  return compare_with_baseline(baseline, report, 0.05, allowed, missing);
}

TEST_F(BaselineFile, EntriesGoRoundTrip) {
  const BenchmarkReport report = make_report();
  ASSERT_TRUE(save_baseline(path_, report).ok());
  const auto entries = read_baseline(path_);
  ASSERT_TRUE(entries.ok()) << entries.status().to_string();
  ASSERT_EQ(entries->size(), 2U);
  const SampleSummary& summary = report.points[1].measurement.summary;
  const BaselineEntry& entry = entries->at(1);
  EXPECT_EQ(entry.key.sizes, (Sizes{{"s0", 8}}));
  EXPECT_EQ(entry.key.model_sha256, report.context.model_sha256);
  EXPECT_EQ(entry.commit, "c0ffee");
  EXPECT_EQ(entry.summary.count, 100U);
  EXPECT_DOUBLE_EQ(entry.summary.median, summary.median);
  EXPECT_DOUBLE_EQ(entry.summary.median_interval.high, summary.median_interval.high);
  EXPECT_DOUBLE_EQ(entry.summary.p99, summary.p99);
}

TEST_F(BaselineFile, SavingReplacesEqualKeysAndKeepsOthers) {
  ASSERT_TRUE(save_baseline(path_, make_report()).ok());
  BenchmarkReport other = make_report(2);
  other.context.model_sha256 = std::string(64, 'b');
  ASSERT_TRUE(save_baseline(path_, other).ok());
  EXPECT_EQ(read_baseline(path_)->size(), 4U);
  ASSERT_TRUE(save_baseline(path_, make_report(3)).ok());
  const auto entries = read_baseline(path_).value();
  ASSERT_EQ(entries.size(), 4U);
  EXPECT_NEAR(entries[2].summary.median, 30, 1);
}

TEST_F(BaselineFile, SlowerIsWorseFasterIsBetterEqualIsSame) {
  const auto baseline = make_entries(make_report());
  EXPECT_EQ(compare(baseline, make_report(1.2))->at(0).comparison.verdict, Verdict::kWorse);
  EXPECT_EQ(compare(baseline, make_report(0.8))->at(1).comparison.verdict, Verdict::kBetter);
  EXPECT_EQ(compare(baseline, make_report(1.02))->at(0).comparison.verdict, Verdict::kSame);
}

TEST_F(BaselineFile, WhatDoesNotFitIsOneSentence) {
  const auto baseline = make_entries(make_report());
  BenchmarkReport report = make_report();
  report.context.cpu_model = "Neoverse-N1";
  EXPECT_THAT(compare(baseline, report).status().message(), HasSubstr("CPU is Neoverse-V1, here it is Neoverse-N1"));
  report = make_report();
  report.context.model = "n.pt2";
  report.context.model_sha256 = std::string(64, 'b');
  EXPECT_THAT(compare(baseline, report).status().message(), HasSubstr("model is m.pt2, here it is n.pt2"));
  EXPECT_TRUE(compare(baseline, report, {.model = true}).ok());
  report = make_report();
  report.context.model_sha256 = std::string(64, 'b');
  EXPECT_THAT(compare(baseline, report).status().message(), HasSubstr("another file of the name m.pt2"));
  report = make_report();
  report.context.device = "nvidia:0";
  EXPECT_THAT(compare(baseline, report).status().message(), HasSubstr("device is cpu, here it is nvidia:0"));
  report = make_report();
  report.context.torch_version = "2.11.0";
  EXPECT_THAT(compare(baseline, report).status().message(), HasSubstr("libtorch is 2.15.0, here it is 2.11.0"));
  EXPECT_TRUE(compare(baseline, report, {.versions = true}).ok());
  report = make_report();
  report.context.threads = 1;
  EXPECT_THAT(compare(baseline, report).status().message(), HasSubstr("threads is 2, here it is 1"));
  EXPECT_TRUE(compare(baseline, report, {.threads = true}).ok());
  EXPECT_THAT(compare({}, make_report()).status().message(), HasSubstr("holds no entry"));
}

TEST_F(BaselineFile, AcceleratorsAreToldApartByTheirModels) {
  BenchmarkReport report = make_report();
  report.context.device = "nvidia:0";
  report.context.device_model = "NVIDIA A100-SXM4-80GB";
  ASSERT_TRUE(save_baseline(path_, report).ok());
  EXPECT_TRUE(compare(read_baseline(path_).value(), report).ok());
  report.context.device_model = "NVIDIA H200";
  EXPECT_THAT(compare(read_baseline(path_).value(), report).status().message(),
              HasSubstr("its nvidia:0 is NVIDIA A100-SXM4-80GB, here it is NVIDIA H200"));
  ASSERT_TRUE(save_baseline(path_, report).ok());
  EXPECT_EQ(read_baseline(path_)->size(), 4U) << "the other one's entries stay";
}

// Files of before the model of a device was kept: the processor's fit as they did, an accelerator's fit nothing.
TEST_F(BaselineFile, EntriesWithoutAModelOfTheDeviceServeTheProcessorAlone) {
  const auto without_model = [this](const BenchmarkReport& report) {
    std::filesystem::remove(path_);
    EXPECT_TRUE(save_baseline(path_, report).ok());
    auto json = nlohmann::ordered_json::parse(read_text_file(path_, 1U << 20U).value());
    for (auto& entry : json["entries"]) EXPECT_EQ(entry["key"].erase("device_model"), 1U);
    write(json.dump());
    return read_baseline(path_).value();
  };
  BenchmarkReport report = make_report();
  EXPECT_TRUE(compare(without_model(report), report).ok());
  report.context.device = "nvidia:0";
  report.context.device_model = "NVIDIA H200";
  EXPECT_THAT(compare(without_model(report), report).status().message(),
              HasSubstr("it does not tell what its nvidia:0 was, here it is NVIDIA H200; save it anew"));
}

TEST_F(BaselineFile, PointsWithoutACounterpartAreNamed) {
  BenchmarkReport report = make_report();
  report.points[1].sizes = {{"s0", 16}};
  std::vector<std::string> missing;
  const auto compared = compare_with_baseline(make_entries(make_report()), report, 0.05, {}, missing);
  ASSERT_TRUE(compared.ok());
  EXPECT_EQ(compared->size(), 1U);
  EXPECT_THAT(missing, ElementsAre("batch 16"));
}

TEST_F(BaselineFile, BrokenFilesAreRefusedAndNeverOverwritten) {
  ASSERT_TRUE(save_baseline(path_, make_report()).ok());
  const std::string good = read_text_file(path_, 1U << 20U).value();
  for (const std::string& bad : {std::string(), std::string("{}"), std::string("[1, 2]"), std::string("{\"a\": "),
                                 std::string("{\"kpt_baseline\": 1}"), good.substr(0, good.size() / 2),
                                 std::string("{\"kpt_baseline\": 1, \"entries\": [{}]}")}) {
    write(bad);
    EXPECT_EQ(read_baseline(path_).status().code(), StatusCode::kCorruptData) << bad;
    EXPECT_FALSE(save_baseline(path_, make_report()).ok());
    EXPECT_EQ(read_text_file(path_, 1U << 20U).value(), bad);
  }
  auto json = nlohmann::ordered_json::parse(good);
  json["kpt_baseline"] = 2;
  write(json.dump());
  EXPECT_EQ(read_baseline(path_).status().code(), StatusCode::kVersionMismatch);
  for (const auto& [pointer, value] :
       std::vector<std::pair<std::string, nlohmann::ordered_json>>{{"/entries/1/median_ms", 1e9},
                                                                   {"/entries/1/median_ms", -1},
                                                                   {"/entries/1/median_ms", "5"},
                                                                   {"/entries/1/interval_ms", {1}},
                                                                   {"/entries/1/key/threads", 1e30},
                                                                   {"/entries/1/key/threads", -1},
                                                                   {"/entries/1/key/device_model", 5},
                                                                   {"/entries/1/samples", -4},
                                                                   {"/entries/1/key/sizes", {{"s0", "x"}}},
                                                                   {"/entries/1/key", nullptr}}) {
    auto broken = nlohmann::ordered_json::parse(good);
    broken[nlohmann::ordered_json::json_pointer(pointer)] = value;
    write(broken.dump());
    const Status status = read_baseline(path_).status();
    EXPECT_EQ(status.code(), StatusCode::kCorruptData) << pointer << value;
    EXPECT_THAT(status.message(), HasSubstr("entry 1"));
  }
  EXPECT_EQ(read_baseline("/no/such/file").status().code(), StatusCode::kNotFound);
}

TEST_F(BaselineFile, WordsOfDifferencesAreChecked) {
  const std::vector<std::string> words = {"model", "threads"};
  const BaselineDifferences differences = parse_differences(words).value();
  EXPECT_TRUE(differences.model);
  EXPECT_TRUE(differences.threads);
  EXPECT_FALSE(differences.versions);
  const std::vector<std::string> wrong = {"moon"};
  EXPECT_THAT(parse_differences(wrong).status().message(), HasSubstr("'moon'"));
}

}  // namespace
}  // namespace kpt
