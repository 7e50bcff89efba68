#include "backends/nvidia/driver_probe.h"

#include <cstdlib>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/hardware_fixture.h"
#include "support/tree_paths.h"

namespace kpt {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

const std::string kFakeDriver = build_dir() + "/fakes/nvidia/libcuda.so.1";
const std::string kFakeNvml = build_dir() + "/fakes/nvidia/libnvidia-ml.so.1";

NvidiaReport probe_with(const std::string& spec) {
  const testing::TemporaryFolder folder;
  const std::string path = (folder.path() / "spec.json").string();
  std::ofstream(path) << spec;
  ::setenv("KPT_FAKE_CUDA", path.c_str(), 1);
  return probe_nvidia_driver(kFakeDriver, kFakeNvml);
}

TEST(NvidiaDriverProbe, MissingLibraryIsAbsent) {
  const NvidiaReport report = probe_nvidia_driver("libkpt_no_such_driver.so.1", "libkpt_no_such_nvml.so.1");
  EXPECT_EQ(report.finding.presence, Presence::kAbsent);
  EXPECT_THAT(report.finding.reason, HasSubstr("libkpt_no_such_driver.so.1"));
}

TEST(NvidiaDriverProbe, FileThatIsNoLibraryIsBroken) {
  const testing::TemporaryFolder folder;
  const std::string path = (folder.path() / "libcuda.so.1").string();
  std::ofstream(path) << "text";
  const NvidiaReport report = probe_nvidia_driver(path, kFakeNvml);
  EXPECT_EQ(report.finding.presence, Presence::kBroken);
  EXPECT_THAT(report.finding.remedy, HasSubstr("reinstall"));
}

TEST(NvidiaDriverProbe, LibraryWithoutTheFunctionsIsBroken) {
  const NvidiaReport report = probe_nvidia_driver(kFakeNvml, kFakeNvml);
  EXPECT_EQ(report.finding.presence, Presence::kBroken);
  EXPECT_THAT(report.finding.reason, HasSubstr("lacks cuInit"));
}

TEST(NvidiaDriverProbe, LibraryThatIsNotNvmlIsANote) {
  const testing::TemporaryFolder folder;
  const std::string path = (folder.path() / "spec.json").string();
  std::ofstream(path) << R"({"version": 13000, "devices": [{"name": "GPU", "capability": [9, 0]}]})";
  ::setenv("KPT_FAKE_CUDA", path.c_str(), 1);
  const NvidiaReport report = probe_nvidia_driver(kFakeDriver, kFakeDriver);
  EXPECT_EQ(report.finding.presence, Presence::kPresent);
  EXPECT_THAT(report.notes, Contains(HasSubstr("lacks nvmlInit_v2")));
}

TEST(NvidiaDriverProbe, WhatACardDoesNotTellOfItsLoadIsAbsent) {
  const NvidiaReport report = probe_with(R"({"version": 13000, "devices": [
    {"name": "GPU", "capability": [9, 0], "pci": "0000:1b:00.0", "memory_total": 1, "utilization": 37,
     "power": 4000000000}],
    "calls": {"nvmlDeviceGetTemperature": 4}})");
  ASSERT_EQ(report.gpus.size(), 1U);
  const NvidiaGpu& gpu = report.gpus[0];
  EXPECT_EQ(gpu.utilization_percent, 37);
  EXPECT_EQ(gpu.temperature_celsius, std::nullopt);
  EXPECT_THAT(report.notes, Contains(HasSubstr("did not tell the temperature: Insufficient Permissions")));
  EXPECT_EQ(gpu.power_milliwatts, std::nullopt) << "a number that no card has";
  EXPECT_EQ(gpu.clock_sm_now_mhz, std::nullopt);
}

TEST(NvidiaDriverProbe, LimitsOfABlockAreTheDriversAndNothingWhereTheyCannotBe) {
  const NvidiaReport report = probe_with(R"({"version": 13000, "devices": [
    {"name": "one", "capability": [9, 0], "threads_per_block": 512, "shared_memory_per_block": 32768},
    {"name": "other", "capability": [9, 0], "threads_per_block": -1, "shared_memory_per_block": 0}]})");
  ASSERT_EQ(report.gpus.size(), 2U);
  EXPECT_EQ(report.gpus[0].max_threads_per_block, 512);
  EXPECT_EQ(report.gpus[0].max_shared_memory_per_block_bytes, 32768);
  EXPECT_EQ(report.gpus[1].max_threads_per_block, std::nullopt);
  EXPECT_EQ(report.gpus[1].max_shared_memory_per_block_bytes, std::nullopt);
}

TEST(NvidiaDriverProbe, SeveralGpusKeepTheirOrder) {
  const NvidiaReport report = probe_with(R"({"version": 12080, "devices": [
    {"name": "first", "uuid": "00112233445566778899aabbccddeeff", "capability": [8, 0]},
    {"name": "second", "capability": [9, 0], "calls": {"cuDeviceGet": 101}},
    {"name": "third", "capability": [8, 9]}]})");
  ASSERT_EQ(report.gpus.size(), 2U);
  EXPECT_EQ(report.gpus[0].uuid, "GPU-00112233-4455-6677-8899-aabbccddeeff");
  EXPECT_EQ(report.gpus[1].index, 2);
  EXPECT_EQ(report.gpus[1].architecture, "Ada");
  EXPECT_EQ(report.cuda_driver_version, "12.8");
}

TEST(NvidiaDriverProbe, OldDriverThatAlsoFailsIsCalledOld) {
  const NvidiaReport report = probe_with(R"({"version": 10020, "calls": {"cuInit": 999}})");
  EXPECT_THAT(report.finding.reason, HasSubstr("the driver serves CUDA 10.2"));
}

TEST(NvidiaDriverProbe, NvmlFindsAGpuByAddressWhenTheUuidIsUnknown) {
  const NvidiaReport report = probe_with(R"({"version": 13000, "calls": {"cuDeviceGetUuid_v2": 1}, "devices": [
    {"name": "GPU", "pci": "0000:01:00.0", "capability": [9, 0], "memory_total": 100, "memory_free": 60}]})");
  ASSERT_EQ(report.gpus.size(), 1U);
  EXPECT_EQ(report.gpus[0].uuid, "");
  EXPECT_EQ(report.gpus[0].memory_free_bytes, 60U);
}

}  // namespace
}  // namespace kpt
