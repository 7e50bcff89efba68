#include "backends/tpu/topology_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kpt {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TpuReport report_of(const std::string& generation, const std::string& topology) {
  TpuReport report;
  report.generation = generation;
  report.topology = topology;
  report.chips = 4;
  return report;
}

Result<TpuTopology> choose(std::string_view wanted, const TpuReport& report) {
  return choose_tpu_topology(wanted, [&report] { return report; });
}

TEST(TpuTopologyChoice, AutoIsTheSliceAtHand) {
  EXPECT_EQ(choose("", report_of("v5e", "2x4"))->target_name(), "tpu:v5e:2x4");
  EXPECT_EQ(choose("", report_of("v7", "2x2x1"))->target_name(), "tpu:v7:2x2x1");
}

TEST(TpuTopologyChoice, WithoutAnAnswerItSaysWhatToName) {
  for (const TpuReport& report : {report_of("", ""), report_of("", "2x2"), report_of("v5e", "")}) {
    const Status status = choose("", report).status();
    EXPECT_EQ(status.code(), StatusCode::kDeviceNotAvailable);
    EXPECT_EQ(status.vendor(), Vendor::kTpu);
    EXPECT_THAT(status.message(), HasSubstr("name a target, such as tpu:v5e:2x2, or set tpu.topology"));
  }
  EXPECT_EQ(choose("", report_of("v3", "2x2")).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(choose("", report_of("v5e", "3x3")).status().code(), StatusCode::kInvalidArgument);
}

TEST(TpuTopologyChoice, AUsersChoiceIsNotAskedAbout) {
  const auto nobody = []() -> TpuReport {
    ADD_FAILURE() << "detection was asked";
    return {};
  };
  EXPECT_EQ(choose_tpu_topology("v4:2x2x4", nobody)->target_name(), "tpu:v4:2x2x4");
  for (const char* wanted : {"v5e", "2x2", ":", "v5e:", "v5e:3x3", "v2:2x2", "tpu:v5e:2x2", "v5e:2x2:1"}) {
    const Status status = choose_tpu_topology(wanted, nobody).status();
    EXPECT_EQ(status.code(), StatusCode::kConfiguration) << wanted;
    EXPECT_EQ(status.vendor(), Vendor::kTpu) << wanted;
    EXPECT_THAT(status.message(), AllOf(HasSubstr("tpu.topology is '"), HasSubstr("valid are auto, v4:2x2x1")))
        << wanted;
  }
}

TEST(TpuTopologyChoice, WhatTheMachineDoesNotTellComesFromTheChoice) {
  for (const TpuReport& report :
       {report_of("", ""), report_of("v5e", ""), report_of("", "2x2"), report_of("v5e", "2x2")}) {
    const auto filled = apply_chosen_topology("v5e:2x2", report);
    ASSERT_TRUE(filled.ok()) << filled.status().message();
    EXPECT_EQ(filled->generation, "v5e");
    EXPECT_EQ(filled->topology, "2x2");
    EXPECT_EQ(filled->hbm_bytes_per_chip, std::uint64_t{16} << 30U);
    EXPECT_EQ(filled->chips, 4);
  }
  EXPECT_EQ(apply_chosen_topology("", report_of("v5e", "")).value(), report_of("v5e", ""));
}

TEST(TpuTopologyChoice, AnotherSliceIsOneSentence) {
  for (const TpuReport& report : {report_of("v6e", ""), report_of("v6e", "2x2"), report_of("v5e", "4x4"),
                                  report_of("", "4x4"), report_of("v5e", "no shape")}) {
    const Status status = apply_chosen_topology("v5e:2x2", report).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArchitecture) << report.generation << report.topology;
    EXPECT_EQ(status.vendor(), Vendor::kTpu);
  }
  EXPECT_EQ(apply_chosen_topology("v5e:2x2", report_of("v6e", "4x4")).status().message(),
            "the TPUs of this machine are v6e:4x4, and tpu.topology is v5e:2x2; set it to auto");
  EXPECT_EQ(apply_chosen_topology("v5e:9x9", report_of("v5e", "2x2")).status().code(), StatusCode::kConfiguration);
}

}  // namespace
}  // namespace kpt
