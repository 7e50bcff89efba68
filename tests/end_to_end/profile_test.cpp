// kpt profile on files of the tree, as a user types it.
#include <filesystem>
#include <fstream>
#include <map>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "program.h"

namespace kpt::testing {
namespace {

using ::testing::HasSubstr;

#if defined(KPT_HAS_TORCH)
TEST(ProfileCommand, TellsWhereTheTimeGoes) {
  const ProgramRun run = run_kpt({"profile", golden("conv_norm"), "--runs", "3", "--top", "2"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  for (const char* word : {"on cpu: ", " us a run in the median of 3", "node by node", "GFLOP/s", "and ", " more",
                           "the limit: measured limits"}) {
    EXPECT_THAT(run.out, HasSubstr(word));
  }
  const auto json = run_kpt({"profile", golden("conv_norm"), "--runs", "2", "--json"}).json();
  EXPECT_EQ(json.at("runs"), 2);
  EXPECT_GT(json.at("median_microseconds").get<double>(), 0);
  EXPECT_TRUE(json.at("device_busy_microseconds").is_null()) << "nothing beside the host";
  EXPECT_THAT(run.out, HasSubstr("memory: weights "));
  EXPECT_THAT(run.out, HasSubstr("; in use "));
  const auto& memory = json.at("memory");
  EXPECT_GT(memory.at("weights_bytes").get<std::uint64_t>(), 0U);
  EXPECT_GT(memory.at("allocated_bytes").get<std::uint64_t>(), memory.at("weights_bytes").get<std::uint64_t>());
  EXPECT_GE(memory.at("peak_bytes").get<std::uint64_t>(), memory.at("allocated_bytes").get<std::uint64_t>());
  EXPECT_TRUE(memory.at("reserved_bytes").is_null()) << "the host keeps nothing back";
  ASSERT_FALSE(json.at("nodes").empty());
  double before = 1e18;
  for (const auto& node : json.at("nodes")) {
    EXPECT_LE(node.at("elapsed_microseconds").get<double>(), before) << "longest first";
    before = node.at("elapsed_microseconds");
  }
}

TEST(ProfileCommand, TheTraceHoldsRunsNodesAndOperators) {
  const auto folder = std::filesystem::temp_directory_path() / ("kpt_" + std::to_string(std::random_device{}()));
  ASSERT_TRUE(std::filesystem::create_directory(folder));
  const std::string file = folder / "trace.json";
  const ProgramRun run = run_kpt({"profile", golden("linear_state"), "--runs", "2", "--warmup", "0", "--trace", file});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("ui.perfetto.dev"));
  std::ifstream stream(file);
  std::map<std::string, int> categories;
  const auto trace = nlohmann::json::parse(stream);
  for (const auto& event : trace.at("traceEvents")) {
    if (event.at("ph") == "X") ++categories[event.at("cat")];
  }
  EXPECT_EQ(categories["run"], 4) << "two as always, two node by node";
  EXPECT_GE(categories["node"], 2);
  EXPECT_GE(categories["operator"], 4) << "libtorch's own, in all four runs";
  std::filesystem::remove_all(folder);
}
#endif

TEST(ProfileCommand, WrongNamesAreSentences) {
  const ProgramRun missing = run_kpt({"profile", "/no/such/model.pt2"});
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_THAT(missing.err, HasSubstr("/no/such/model.pt2"));
  EXPECT_EQ(run_kpt({"profile", golden("conv_norm"), "--runs", "0"}).exit_code, 2);
  const ProgramRun device = run_kpt({"profile", golden("conv_norm"), "--device", "gpu"});
  EXPECT_EQ(device.exit_code, 1);
  EXPECT_THAT(device.err, HasSubstr("gpu"));
}

}  // namespace
}  // namespace kpt::testing
