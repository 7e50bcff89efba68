#include "kpt/device_figures.h"

#include <unistd.h>

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/backend_list.h"
#include "api/detection.h"
#include "api/model_loading.h"
#include "kpt/errors.h"
#include "support/recorded_machine.h"

namespace kpt {
namespace {

using testing::RecordedMachine;
using testing::ScopedVariables;

constexpr std::int64_t kMiB = std::int64_t{1} << 20U;

TEST(DeviceLoads, AreWhatNvmlTells) {
  const RecordedMachine machine("nvidia", "hopper_h200", "nvidia");
  const DeviceLoad load = read_device_load("nvidia:0").value();
  EXPECT_EQ(load.utilization_percent, 0);
  EXPECT_EQ(load.temperature_celsius, 31);
  EXPECT_EQ(load.power_milliwatts, 76420);
  EXPECT_EQ(load.power_limit_milliwatts, 700000);
  EXPECT_EQ(load.clock_mhz, 345);
  EXPECT_EQ(load.clock_max_mhz, 1980);
  EXPECT_EQ(load.memory_clock_mhz, 3201);
  EXPECT_EQ(load.memory_clock_max_mhz, 3201);
  EXPECT_EQ(load.memory_free_bytes, 149500000000U);
}

TEST(DeviceLoads, WithoutNvmlAGpuTellsNothing) {
  const RecordedMachine machine("nvidia", "nvml_missing", "nvidia");
  const Result<DeviceLoad> load = read_device_load("nvidia:0");
  ASSERT_TRUE(load.ok()) << load.status().message();
  EXPECT_EQ(load->utilization_percent, std::nullopt);
  EXPECT_EQ(load->power_milliwatts, std::nullopt);
  EXPECT_EQ(load->clock_mhz, std::nullopt);
}

TEST(DeviceLoads, AGpuThatModelsCannotRunOnTellsToo) {
  const RecordedMachine machine("nvidia", "pascal_p100", "nvidia");
  ASSERT_FALSE(find_device("nvidia:0").ok());
  const Result<DeviceLoad> load = read_device_load("nvidia:0");
  ASSERT_TRUE(load.ok()) << load.status().message();
  EXPECT_TRUE(load->memory_free_bytes.has_value());
}

TEST(DeviceLoads, ADeviceThatIsNotThereIsATypedError) {
  const RecordedMachine machine("nvidia", "hopper_h200", "nvidia");
  EXPECT_EQ(read_device_load("nvidia:1").status().code(), StatusCode::kDeviceNotAvailable);
  EXPECT_EQ(read_device_load("amd:4095").status().code(), StatusCode::kDeviceNotAvailable);
  for (const char* name :
       {"", "auto", "nvidia", "nvidia:", "nvidia:x", "nvidia:-1", "nvidia:0x0", "nvidia:00", "nvidia:+0"}) {
    EXPECT_EQ(read_device_load(name).status().code(), StatusCode::kInvalidArgument) << name;
  }
  EXPECT_THROW((void)read_device_load("nvidia:1").value(), CudaNotAvailableError);
}

TEST(DeviceMemoryOf, TheProcessorsIsThatOfTheProcessAndNothingIsKept) {
  const Result<DeviceMemoryFigures> figures = read_device_memory("cpu");
  ASSERT_TRUE(figures.ok()) << figures.status().message();
  EXPECT_GT(figures->allocated_bytes, std::uint64_t{1} << 20U);
  EXPECT_GE(figures->peak_bytes, figures->allocated_bytes);
  EXPECT_EQ(figures->reserved_bytes, std::nullopt);
  EXPECT_EQ(figures->fragmentation, std::nullopt);
  EXPECT_EQ(figures->out_of_memory_count, std::nullopt);
  EXPECT_EQ(empty_device_memory_cache("cpu").code(), StatusCode::kUnsupported);
}

// As loading a model there does: a build without an engine for the device says so.
TEST(DeviceMemoryOf, ADeviceThatIsNotThereIsATypedError) {
  const Environment environment = Environment::from_process();
  const BackendContext context = make_backend_context(load_library_config(environment).value(), environment).value();
  const StatusCode absent = find_runnable_device("nvidia:4095", context).status().code();
  EXPECT_NE(absent, StatusCode::kOk);
  for (const auto& [name, code] : {std::pair("nvidia:4095", absent), std::pair("auto", StatusCode::kInvalidArgument),
                                   std::pair("gpu", StatusCode::kInvalidArgument)}) {
    EXPECT_EQ(read_device_memory(name).status().code(), code) << name;
    EXPECT_EQ(reset_device_memory_peak(name).code(), code) << name;
    EXPECT_EQ(empty_device_memory_cache(name).code(), code) << name;
  }
}

// On the test libamdhip64: its memory is the host's.
void watch_memory() {
  const Environment environment = Environment::from_process();
  const Config config = load_library_config(environment).value();
  const PlacedDevice placed = find_runnable_device("amd:0", make_backend_context(config, environment).value()).value();
  const std::int64_t dims[] = {3 * kMiB};
  {
    const Tensor held = placed.device->allocate(DType::kUInt8, dims).value();
    const DeviceMemoryFigures figures = read_device_memory("amd:0").value();
    EXPECT_EQ(figures.total_bytes, 64 * kMiB);
    EXPECT_EQ(figures.allocated_bytes, 3 * kMiB) << "of this process, not of the backend that was made to ask";
    EXPECT_EQ(figures.peak_bytes, 3 * kMiB);
    EXPECT_EQ(figures.allocations, 1U);
    EXPECT_EQ(figures.frees, 0U);
    EXPECT_EQ(figures.out_of_memory_count, 0U);
    EXPECT_EQ(figures.retries, 0U);
    EXPECT_LE(figures.fragmentation.value_or(0), 1);
  }
  EXPECT_EQ(read_device_memory("amd:0")->allocated_bytes, 0U);
  EXPECT_EQ(read_device_memory("amd:0")->peak_bytes, 3 * kMiB);
  EXPECT_GE(read_device_memory("amd:0")->reserved_bytes, 3 * kMiB);
  EXPECT_TRUE(reset_device_memory_peak("amd:0").ok());
  EXPECT_EQ(read_device_memory("amd:0")->peak_bytes, 0U);
  EXPECT_TRUE(empty_device_memory_cache("amd:0").ok());
  EXPECT_EQ(read_device_memory("amd:0")->reserved_bytes, 0U);
  const std::int64_t too_much[] = {65 * kMiB};
  EXPECT_EQ(placed.device->allocate(DType::kUInt8, too_much).status().code(), StatusCode::kOutOfMemory);
  EXPECT_EQ(read_device_memory("amd:0")->out_of_memory_count, 1U);
}

// Started anew, so that the loader looks for libraries where the test says.
TEST(DeviceMemoryOfDeathTest, IsThatOfTheProcessWhoeverAsks) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const testing::TemporaryFolder folder;
  const std::string spec = (folder.path() / "machine.json").string();
  std::ofstream(spec) << R"({"version": 60443482, "devices": [{"name": "test", "gfx": "gfx942", "compute_units": 4,
    "memory_total": 67108864}]})";
  ScopedVariables variables;
  variables.set("XDG_CONFIG_HOME", "/nonexistent");
  variables.set("KPT_PROBE_BACKENDS", "amd");
  variables.set("KPT_AMD_ENGINE", "native");
  variables.set("KPT_FAKE_HIP", spec);
  variables.set("LD_LIBRARY_PATH", build_dir() + "/fakes/amd");
  EXPECT_EXIT(
      {
        watch_memory();
        ::_exit(::testing::Test::HasFailure() ? 1 : 0);
      },
      ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace kpt
