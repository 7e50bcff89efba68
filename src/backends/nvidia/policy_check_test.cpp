#include "backends/nvidia/policy_check.h"

#include <tuple>

#include <gmock/gmock.h>

namespace kpt {
namespace {

using ::testing::HasSubstr;

const NvidiaArchitecture& hopper() { return *find_nvidia_architecture(9, 0); }

void expect_refused(const Status& status, StatusCode code, std::string_view option) {
  EXPECT_EQ(status.code(), code);
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
  expect_refused(status, StatusCode::kUnsupported, "nvidia.nvtx");
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
    if (!has) expect_refused(status, StatusCode::kMatrixUnit, "nvidia.tf32");
  }
  EXPECT_THAT(check_nvidia_policy(policy, *find_nvidia_architecture(7, 5), false).message(),
              HasSubstr("Turing (sm_75), which has no TF32"));
}

TEST(NvidiaPolicy, ScalingsOfFp8NeedFp8) {
  for (const Fp8Scaling scaling : {Fp8Scaling::kTensor, Fp8Scaling::kDelayed}) {
    NvidiaPolicy policy;
    policy.fp8_scaling = scaling;
    for (const auto& [major, minor, has] :
         {std::tuple{7, 5, false}, {8, 0, false}, {8, 6, false}, {8, 9, true}, {9, 0, true}, {12, 1, true}}) {
      const Status status = check_nvidia_policy(policy, *find_nvidia_architecture(major, minor), false);
      EXPECT_EQ(status.ok(), has) << major << "." << minor;
      if (!has) expect_refused(status, StatusCode::kMatrixUnit, "nvidia.fp8_scaling=");
    }
  }
}

TEST(NvidiaPolicy, OtherInputsOfFp8ProductsThanE4m3NeedFp8) {
  for (const auto& [inputs, setting] : {std::pair{Fp8Inputs::kE5M2, "nvidia.fp8_activations=e5m2"},
                                        {Fp8Inputs::kByData, "nvidia.fp8_activations=auto"}}) {
    NvidiaPolicy policy;
    policy.fp8_inputs = inputs;
    for (const auto& [major, minor, has] : {std::tuple{7, 5, false}, {8, 6, false}, {8, 9, true}, {9, 0, true}}) {
      const Status status = check_nvidia_policy(policy, *find_nvidia_architecture(major, minor), false);
      EXPECT_EQ(status.ok(), has) << major << "." << minor;
      if (!has) expect_refused(status, StatusCode::kMatrixUnit, setting);
    }
  }
}

TEST(NvidiaPolicy, WhatChangesResultsIsNamed) {
  NvidiaPolicy policy;
  policy.nvtx = true;
  EXPECT_EQ(describe_arithmetic(policy), "");
  policy.tf32 = true;
  EXPECT_EQ(describe_arithmetic(policy), "tf32");
  policy.tune_products = true;
  EXPECT_EQ(describe_arithmetic(policy), "tf32,tuned-products");
  policy.tune_convolutions = true;
  EXPECT_EQ(describe_arithmetic(policy), "tf32,tuned-products,tuned-convolutions");
  policy.tune_products = false;
  policy.tune_convolutions = false;
  policy.fp8_scaling = Fp8Scaling::kTensor;
  EXPECT_EQ(describe_arithmetic(policy), "tf32,fp8-tensor");
  policy.tf32 = false;
  policy.fp8_scaling = Fp8Scaling::kDelayed;
  policy.fp8_history = 4;
  EXPECT_EQ(describe_arithmetic(policy), "fp8-delayed-4");
  policy.fp8_inputs = Fp8Inputs::kE5M2;
  EXPECT_EQ(describe_arithmetic(policy), "fp8-delayed-4,fp8-inputs-e5m2");
  policy.fp8_inputs = Fp8Inputs::kByData;
  EXPECT_EQ(describe_arithmetic(policy), "fp8-delayed-4,fp8-inputs-auto");
}

}  // namespace
}  // namespace kpt
