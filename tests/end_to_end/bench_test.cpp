// kpt bench on files of the tree, as a user types it.
#include <filesystem>
#include <fstream>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "hardware_fixture.h"
#include "program.h"
#include "support/tree_paths.h"

namespace kpt::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(BenchCommand, WrongArgumentsAreSentences) {
  const ProgramRun missing = run_kpt({"bench", "/no/such/model.pt2"});
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_THAT(missing.err, HasSubstr("/no/such/model.pt2"));
  EXPECT_EQ(run_kpt({"bench"}).exit_code, 2);
  EXPECT_EQ(run_kpt({"bench", golden("split"), "--duration", "-1"}).exit_code, 2);
  const ProgramRun both = run_kpt({"bench", golden("split"), "--inputs", "x.npz", "--batch", "1,2"});
  EXPECT_EQ(both.exit_code, 2);
  EXPECT_THAT(both.err, HasSubstr("--inputs has its sizes already"));
  const ProgramRun across = run_kpt({"bench", golden("split"), "--across", "model"});
  EXPECT_EQ(across.exit_code, 2);
  EXPECT_THAT(across.err, HasSubstr("--compare"));
}

#if defined(KPT_HAS_TORCH)
const std::vector<std::string> kShort = {"--duration", "0.05", "--warmup", "0", "--samples", "10"};

ProgramRun bench(std::vector<std::string> arguments, const std::vector<std::string>& environment = {}) {
  arguments.insert(arguments.begin(), "bench");
  arguments.insert(arguments.end(), kShort.begin(), kShort.end());
  return run_kpt(arguments, environment);
}

TEST(BenchCommand, TableAndJsonCarryTheFigures) {
  const ProgramRun text = bench({golden("conv_norm")});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  for (const char* word : {"median", "95 % interval", "p90", "p99", "items/s", "peak memory", "on cpu"}) {
    EXPECT_THAT(text.out, HasSubstr(word));
  }
  const auto json = bench({golden("conv_norm"), "--json", "--set", "threads.count=1"}).json();
  EXPECT_EQ(json.at("context").at("device"), "cpu");
  EXPECT_EQ(json.at("context").at("model"), "conv_norm.pt2");
  EXPECT_EQ(json.at("context").at("model_sha256").get<std::string>().size(), 64U);
  EXPECT_EQ(json.at("context").at("model_threads"), 1);
  const auto& row = json.at("benchmarks").at(0);
  EXPECT_GE(row.at("iterations").get<int>() + row.at("unsteady_samples").get<int>(), 10);
  EXPECT_GT(row.at("real_time").get<double>(), 0);
  EXPECT_GT(row.at("peak_resident_bytes").get<double>(), 1e6);
}

TEST(BenchCommand, BatchesAndSweepsGiveOneRowForEachSize) {
  const auto symbols = run_kpt({"inspect", golden("sizes"), "--json"}).json().at("symbols");
  ASSERT_FALSE(symbols.empty());
  const std::string symbol = symbols.at(0).at("name");
  const auto json = bench({golden("sizes"), "--json", "--sweep", symbol + "=3,5"}).json();
  std::vector<std::string> names;
  for (const auto& row : json.at("benchmarks")) {
    if (row.at("run_type") == "iteration") names.push_back(row.at("name"));
  }
  EXPECT_THAT(names, ::testing::ElementsAre("sizes.pt2/" + symbol + ":3", "sizes.pt2/" + symbol + ":5"));
  const ProgramRun unknown = bench({golden("sizes"), "--sweep", "nobody=3"});
  EXPECT_EQ(unknown.exit_code, 1);
  EXPECT_THAT(unknown.err, HasSubstr("no symbol 'nobody'"));
  const ProgramRun fixed = bench({golden("conv_norm"), "--batch", "1,2"});
  EXPECT_EQ(fixed.exit_code, 1);
  EXPECT_THAT(fixed.err, HasSubstr("the batch is fixed"));
}

TEST(BenchCommand, BaselinesAreSavedComparedAndRefusedWhenTheyDoNotFit) {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "base.json").string();
  ASSERT_EQ(bench({golden("conv_norm"), "--save-baseline", file}).exit_code, 0);
  const auto good = nlohmann::ordered_json::parse(read_text_file(file, 1U << 20U).value());
  // A run of 50 us has been seen to take 20 ms beside other work, so the times are moved by far more than that.
  const auto with_scale = [&](double scale) {
    auto json = good;
    auto& entry = json["entries"][0];
    for (const char* member : {"median_ms", "min_ms", "max_ms"}) entry[member] = scale * entry[member].get<double>();
    for (auto& end : entry["interval_ms"]) end = scale * end.get<double>();
    std::ofstream(file) << json.dump();
  };
  with_scale(1e-6);
  const ProgramRun worse = bench({golden("conv_norm"), "--compare", file});
  EXPECT_EQ(worse.exit_code, 1);
  EXPECT_THAT(worse.out, HasSubstr("worse"));
  with_scale(1e6);
  const ProgramRun better = bench({golden("conv_norm"), "--compare", file, "--json"});
  EXPECT_EQ(better.exit_code, 0);
  EXPECT_EQ(better.json().at("comparison").at("entries").at(0).at("verdict"), "better");
  with_scale(1e-6);
  EXPECT_EQ(bench({golden("conv_norm"), "--compare", file, "--least-effect", "1000"}).exit_code, 1);
  const ProgramRun other = bench({golden("split"), "--compare", file});
  EXPECT_EQ(other.exit_code, 1);
  EXPECT_THAT(other.err, HasSubstr("model is conv_norm.pt2, here it is split.pt2"));
  EXPECT_THAT(bench({golden("split"), "--compare", file, "--across", "model"}).out, HasSubstr("against baseline"));
  const ProgramRun threads = bench({golden("conv_norm"), "--compare", file, "--set", "threads.count=77"});
  EXPECT_THAT(threads.err, HasSubstr("number of threads"));
  std::ofstream(file) << "{}";
  EXPECT_THAT(bench({golden("conv_norm"), "--compare", file}).err, HasSubstr("is no baseline"));
}

TEST(BenchCommand, StartUpIsMeasuredInFreshProcesses) {
  const auto json = bench({golden("conv_norm"), "--json", "--startup", "--startup-runs", "2"}).json();
  bool found = false;
  for (const auto& row : json.at("benchmarks")) {
    const std::string name = row.at("name");
    if (name.find("/startup/") == std::string::npos || row.at("run_type") != "iteration") continue;
    found = true;
    EXPECT_EQ(row.at("iterations"), 2);
    // Opening libtorch alone takes longer than any run of this model.
    EXPECT_GT(row.at("real_time").get<double>(), row.at("load_ms").get<double>());
    EXPECT_GT(row.at("load_ms").get<double>(), 0);
    EXPECT_GT(row.at("peak_resident_bytes").get<double>(), 1e6);
  }
  EXPECT_TRUE(found);
}

TEST(BenchCommand, ArtifactsAreMeasuredAndTheirErrorsShown) {
  const TemporaryFolder folder;
  const std::string artifact = (folder.path() / "model.kpt").string();
  const std::string page = (folder.path() / "page.html").string();
  const std::string base = (folder.path() / "base.json").string();
  const ProgramRun made = run_kpt({"optimize", golden("conv_norm"), "--level", "conservative", "-o", artifact});
  ASSERT_EQ(made.exit_code, 0) << made.err << made.out;
  ASSERT_EQ(bench({golden("conv_norm"), "--save-baseline", base}).exit_code, 0);
  const ProgramRun run = bench({artifact, "--html", page, "--compare", base, "--across", "model", "--startup",
                                "--startup-runs", "1", "--no-self-check"});
  EXPECT_THAT(run.out, HasSubstr("model.kpt on cpu")) << run.err;
  EXPECT_THAT(run.out, HasSubstr("against baseline"));
  const std::string html = read_text_file(page, 1U << 24U).value();
  EXPECT_THAT(html, HasSubstr("Error and tolerance"));
  EXPECT_THAT(html, HasSubstr("Before and now"));
}

// `timeout` sends what Ctrl-C does and gives the status that a shell would see.
TEST(BenchCommand, CtrlCEndsItWith130AndNothingHalfWritten) {
  const TemporaryFolder folder;
  const ProgramRun run = run_program({"timeout", "--preserve-status", "--signal=INT", "3", build_dir() + "/bin/kpt",
                                      "bench", golden("conv_norm"), "--duration", "100", "--save-baseline",
                                      (folder.path() / "base.json").string()});
  EXPECT_EQ(run.exit_code, 130) << run.err;
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(BenchCommand, TimeLimitAndInputFilesHaveAnEffect) {
  // A model that takes a third of a millisecond: with a quick one the most samples are there before the limit.
  const ProgramRun limited = run_kpt(
      {"bench", golden("while_sizes"), "--batch", "64", "--duration", "60", "--warmup", "0", "--time-limit", "4"});
  EXPECT_EQ(limited.exit_code, 0) << limited.err;
  EXPECT_THAT(limited.out, HasSubstr("cut the sampling short"));
  const ProgramRun missing = bench({golden("conv_norm"), "--inputs", "/no/such/file.npz"});
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_THAT(missing.err, HasSubstr("/no/such/file.npz"));
}
#endif

}  // namespace
}  // namespace kpt::testing
