#include "benchmark/profile.h"

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace kpt {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using Kind = Activity::Kind;

// Two runs of a graph of two nodes, then one run node by node. The second kernel of node 1 runs beside the first.
Recording two_runs() {
  Recording recording;
  recording.runs = {{1000, 11000}, {20000, 30000}};
  recording.observed_runs = {{50000, 90000}};
  recording.nodes = {{0, {51000, 60000}}, {1, {61000, 80000}}};
  recording.activities = {
      {Kind::kCall, "cudaGraphLaunch", 1500, 100, 7, 1},
      {Kind::kKernel, "gemm", 2000, 4000, 13, 1},
      {Kind::kKernel, "norm", 5000, 2000, 14, 1},
      {Kind::kCopy, "Memcpy HtoD", 8000, 1000, 13, 1},
      {Kind::kKernel, "gemm", 22000, 2000, 13, 2},
      {Kind::kOperator, "aten::linear", 51100, 700, 7, 0},
      {Kind::kCall, "cudaLaunchKernel", 51200, 100, 7, 3},
      {Kind::kKernel, "gemm", 70000, 3000, 13, 3},  // while node 1 is being started: still node 0's
      {Kind::kCall, "cudaLaunchKernel", 62000, 100, 7, 4},
      {Kind::kKernel, "norm", 73000, 500, 13, 4},
      {Kind::kKernel, "somebody else's", 99000, 500, 13, 9},
  };
  return recording;
}

TEST(Profile, KernelsAreSummedOverTheRunsAsTheyAre) {
  const auto kernels = sum_kernels(two_runs());
  ASSERT_EQ(kernels.size(), 3U);
  EXPECT_EQ(kernels[0].name, "gemm");
  EXPECT_DOUBLE_EQ(kernels[0].calls, 1);
  EXPECT_DOUBLE_EQ(kernels[0].microseconds, 3);
  EXPECT_DOUBLE_EQ(kernels[0].mean(), 3);
  EXPECT_DOUBLE_EQ(kernels[0].least, 2);
  EXPECT_DOUBLE_EQ(kernels[0].greatest, 4);
  EXPECT_FALSE(kernels[0].copy);
  EXPECT_EQ(kernels[1].name, "norm");
  EXPECT_DOUBLE_EQ(kernels[1].calls, 0.5);
  EXPECT_DOUBLE_EQ(kernels[1].microseconds, 1);
  EXPECT_DOUBLE_EQ(kernels[1].mean(), 2) << "of a call, not of a run";
  EXPECT_DOUBLE_EQ(kernels[1].least, 2);
  EXPECT_DOUBLE_EQ(kernels[1].greatest, 2);
  EXPECT_EQ(kernels[2].name, "Memcpy HtoD");
  EXPECT_TRUE(kernels[2].copy);
}

TEST(Profile, TheTraceCarriesTheSumsOfItsKernels) {
  const auto kernels = nlohmann::json::parse(write_trace(two_runs(), {}, "amd:0")).at("otherData").at("kernels");
  ASSERT_EQ(kernels.size(), 3U);
  EXPECT_EQ(kernels.at(0).at("name"), "gemm");
  EXPECT_EQ(kernels.at(0).at("mean_microseconds"), 3.0);
  EXPECT_EQ(kernels.at(0).at("least_microseconds"), 2.0);
  EXPECT_EQ(kernels.at(0).at("greatest_microseconds"), 4.0);
}

TEST(Profile, WorkSideBySideIsBusyOnce) {
  // 2000..7000 and 8000..9000 in the first run, 22000..24000 in the second.
  EXPECT_DOUBLE_EQ(busy_microseconds(two_runs()), 4);
  EXPECT_DOUBLE_EQ(busy_microseconds({}), 0);
}

TEST(Profile, WhatACallStartsBelongsToItsNode) {
  EXPECT_THAT(sum_nodes(two_runs(), 2, true), ElementsAre(DoubleNear(3, 1e-9), DoubleNear(0.5, 1e-9)));
  EXPECT_THAT(sum_nodes(two_runs(), 2, false), ElementsAre(DoubleNear(9, 1e-9), DoubleNear(19, 1e-9)));
  EXPECT_THAT(sum_nodes(two_runs(), 1, false), ElementsAre(DoubleNear(9, 1e-9))) << "a node that the graph has not";
  EXPECT_THAT(sum_nodes({}, 2, true), ElementsAre(0, 0));
}

TEST(Profile, TheTraceHasARowForEveryThreadAndStream) {
  const std::vector<std::string> names = {"linear", "nor\xffm \"quoted\""};
  const auto trace = nlohmann::json::parse(write_trace(two_runs(), names, "nvidia:0"));
  std::map<std::string, int> rows;
  std::map<std::string, int> categories;
  for (const auto& event : trace.at("traceEvents")) {
    if (event.at("ph") == "M") {
      ++rows[event.at("args").at("name")];
      continue;
    }
    ++categories[event.at("cat")];
    EXPECT_GE(event.at("ts").get<double>(), 0);
    EXPECT_GE(event.at("dur").get<double>(), 0);
    if (event.at("cat") == "kernel") {
      EXPECT_EQ(event.at("pid"), 2);
    }
  }
  EXPECT_THAT(rows,
              ElementsAre(std::pair("host", 1), std::pair("nodes", 1), std::pair("nvidia:0", 1), std::pair("runs", 1),
                          std::pair("stream 13", 1), std::pair("stream 14", 1), std::pair("thread 1", 1)));
  EXPECT_EQ(categories["kernel"], 6);
  EXPECT_EQ(categories["copy"], 1);
  EXPECT_EQ(categories["node"], 2);
  EXPECT_EQ(categories["run"], 3);
  EXPECT_EQ(categories["call"], 3);
  EXPECT_EQ(categories["operator"], 1);
}

TEST(Profile, AnEmptyRecordingIsAnEmptyTrace) {
  const auto trace = nlohmann::json::parse(write_trace({}, {}, "cpu"));
  for (const auto& event : trace.at("traceEvents")) EXPECT_EQ(event.at("ph"), "M");
}

}  // namespace
}  // namespace kpt
