#include "backends/nvidia/policy_check.h"

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

}  // namespace
}  // namespace kpt
