#include "backends/nvidia/driver_errors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kpt {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(CudaErrors, KnownCodesSayWhatMendsThem) {
  const Finding mismatch = explain_cuda_error(803, "cuInit", "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH");
  EXPECT_EQ(mismatch.presence, Presence::kBroken);
  EXPECT_THAT(mismatch.reason, HasSubstr("cuInit returned CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)"));
  EXPECT_THAT(mismatch.remedy, HasSubstr("reboot"));
  for (const int code : {3, 34, 46, 100, 102, 304, 800, 802, 803, 804, 999}) {
    EXPECT_FALSE(explain_cuda_error(code, "cuInit", "").remedy.empty()) << code;
  }
}

TEST(CudaErrors, NoDeviceBeginsAsCallersExpect) {
  EXPECT_THAT(explain_cuda_error(kCudaErrorNoDevice, "cuInit", "").reason, StartsWith(std::string(kNoGpuShown)));
}

TEST(CudaErrors, UnknownCodeIsNamedByItsNumber) {
  const Finding finding = explain_cuda_error(4711, "cuInit", "");
  EXPECT_EQ(finding.presence, Presence::kBroken);
  EXPECT_THAT(finding.reason, HasSubstr("cuInit returned 4711"));
  EXPECT_FALSE(finding.remedy.empty());
}

}  // namespace
}  // namespace kpt
