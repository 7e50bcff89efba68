#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/build_info.h"
#include "kpt/device.h"
#include "kpt/errors.h"
#include "kpt/version.h"

namespace kpt {
namespace {

using ::testing::HasSubstr;

TEST(Devices, TheCpuIsAlwaysThereAndFirst) {
  const std::vector<DeviceInfo> devices = list_devices().value();
  ASSERT_FALSE(devices.empty());
  EXPECT_EQ(devices.front().name, "cpu");
  EXPECT_TRUE(devices.front().usable);
  EXPECT_GT(devices.front().memory_bytes, 0U);
}

TEST(Devices, EveryListedDeviceCanBeFoundOrSaysWhyNot) {
  const std::vector<DeviceInfo> devices = list_devices().value();
  for (const DeviceInfo& device : devices) {
    const Result<DeviceInfo> found = find_device(device.name);
    EXPECT_EQ(found.ok(), device.usable) << device.name;
    if (!device.usable) {
      EXPECT_FALSE(device.reason.empty()) << device.name;
    }
  }
}

TEST(Devices, NamesOfNoValidFormAreRefused) {
  for (const char* name :
       {"", "gpu", "cpu:0", "nvidia", "nvidia:", "nvidia:x", "nvidia:-1", "nvidia:0x1", "cuda:0", "xla:"}) {
    const Result<DeviceInfo> found = find_device(name);
    ASSERT_FALSE(found.ok()) << name;
    EXPECT_EQ(found.status().code(), StatusCode::kInvalidArgument) << name;
    EXPECT_THROW((void)require_device(name), InvalidArgumentError) << name;
  }
}

TEST(Devices, AMissingDeviceThrowsTheTypeOfItsVendor) {
  EXPECT_THROW((void)require_device("nvidia:4095"), CudaNotAvailableError);
  EXPECT_THROW((void)require_device("amd:4095"), RocmNotAvailableError);
  EXPECT_THROW((void)require_device("tpu:4095"), TpuNotAvailableError);
  EXPECT_THROW((void)require_device("xla:no-such-plugin"), DeviceNotAvailableError);
  // The vendor's root catches it as well.
  EXPECT_THROW((void)require_device("nvidia:4095"), NvidiaError);
  EXPECT_THROW((void)require_device("amd:4095"), AmdError);
  EXPECT_THROW((void)require_device("tpu:4095"), TpuError);
}

TEST(Devices, TheReasonIsInTheMessage) {
  const Result<DeviceInfo> found = find_device("nvidia:4095");
  ASSERT_FALSE(found.ok());
  EXPECT_THAT(found.status().message(), HasSubstr("nvidia:4095 cannot be used: "));
  EXPECT_EQ(found.status().vendor(), Vendor::kNvidia);
}

TEST(Version, IsThatOfTheBuild) {
  EXPECT_EQ(version(), build_info().version);
  EXPECT_FALSE(commit().empty());
}

}  // namespace
}  // namespace kpt
