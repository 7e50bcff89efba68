#include "backends/nvidia/policy_check.h"

#include <tuple>

#include <gmock/gmock.h>

namespace kpt {
namespace {

using ::testing::HasSubstr;

const NvidiaArchitecture& hopper() { return *find_nvidia_architecture(9, 0); }

void expect_refused(const Status& status, std::string_view option) {
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_EQ(status.vendor(), Vendor::kNvidia);
  EXPECT_THAT(status.message(), HasSubstr(option));
  EXPECT_EQ(status.message().find('\n'), std::string::npos);
}

TEST(NvidiaPolicy, DefaultsAreFineEverywhere) {
  for (const NvidiaArchitecture& architecture : nvidia_architectures()) {
    EXPECT_TRUE(check_nvidia_policy({}, architecture, false).ok()) << architecture.name;
  }
}

TEST(NvidiaPolicy, ABuildWithoutNvtxRefusesRanges) {
  NvidiaPolicy policy;
  policy.nvtx = true;
  EXPECT_TRUE(check_nvidia_policy(policy, hopper(), true).ok());
  const Status status = check_nvidia_policy(policy, hopper(), false);
  expect_refused(status, "nvidia.nvtx");
  EXPECT_THAT(status.message(), HasSubstr("this build has no NVTX headers"));
}

TEST(NvidiaPolicy, Tf32NeedsAmpere) {
  NvidiaPolicy policy;
  policy.tf32 = true;
  for (const auto& [major, minor, has] : {std::tuple{7, 0, false},
                                          {7, 5, false},
                                          {8, 0, true},
                                          {8, 6, true},
                                          {8, 9, true},
                                          {9, 0, true},
                                          {10, 3, true},
                                          {12, 0, true}}) {
    const Status status = check_nvidia_policy(policy, *find_nvidia_architecture(major, minor), false);
    EXPECT_EQ(status.ok(), has) << major << "." << minor;
    if (!has) expect_refused(status, "nvidia.tf32");
  }
  EXPECT_THAT(check_nvidia_policy(policy, *find_nvidia_architecture(7, 5), false).message(),
              HasSubstr("Turing (sm_75), which has no TF32"));
}

TEST(NvidiaPolicy, WhatChangesResultsIsNamed) {
  NvidiaPolicy policy;
  policy.nvtx = true;
  EXPECT_EQ(describe_arithmetic(policy), "");
  policy.tf32 = true;
  EXPECT_EQ(describe_arithmetic(policy), "tf32");
}

}  // namespace
}  // namespace kpt
