#include "backends/nvidia/detect_nvidia.h"

#include <algorithm>
#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/nvidia/driver_probe.h"
#include "device/hardware_json.h"
#include "support/hardware_fixture.h"
#include "support/tree_paths.h"

namespace kpt {
namespace {

using testing::HardwareFixture;
using ::testing::HasSubstr;

std::string library(const HardwareFixture& fixture, const std::string& name) {
  if (fixture.has_library(name)) return build_dir() + "/fakes/nvidia/" + name;
  return "libkpt_missing_" + name;
}

class NvidiaMachine : public ::testing::TestWithParam<std::filesystem::path> {};

// Fixtures whose library ends the process run in tests/hardware, with the real helper process.
TEST_P(NvidiaMachine, GivesTheExpectedReport) {
  const HardwareFixture fixture = HardwareFixture::load(GetParam());
  ::setenv("KPT_FAKE_CUDA", fixture.driver_file().c_str(), 1);
  const NvidiaReport probed =
      probe_nvidia_driver(library(fixture, "libcuda.so.1"), library(fixture, "libnvidia-ml.so.1"));
  // The way through the child: what it prints is read back.
  const std::string printed = nlohmann::ordered_json(probed).dump();
  const NvidiaReport report =
      combine_nvidia(fixture.context(), parse_report<NvidiaReport>(printed, "the probe for nvidia"));
  EXPECT_EQ(testing::find_difference(fixture.expect(), report), std::nullopt) << fixture.description();
}

INSTANTIATE_TEST_SUITE_P(Fixtures, NvidiaMachine, ::testing::ValuesIn(testing::list_fixtures_that_return("nvidia")),
                         testing::FixtureName());

DetectionContext bare_machine() {
  DetectionContext context;
  context.files = SystemFiles("/nonexistent_root");
  context.environment = Environment::from_map({});
  return context;
}

TEST(NvidiaDetection, CrashedProbeIsBrokenWithItsMessage) {
  const NvidiaReport report =
      combine_nvidia(bare_machine(), Status(StatusCode::kVendorLibrary, "the probe for nvidia failed: signal 11"));
  EXPECT_EQ(report.finding.presence, Presence::kBroken);
  EXPECT_THAT(report.finding.reason, HasSubstr("signal 11"));
}

TEST(NvidiaDetection, AnswerThatCannotBeReadIsBroken) {
  const NvidiaReport report =
      combine_nvidia(bare_machine(), parse_report<NvidiaReport>("{\"gpus\": 7}", "the probe for nvidia"));
  EXPECT_EQ(report.finding.presence, Presence::kBroken);
  EXPECT_THAT(report.finding.reason, HasSubstr("cannot be read"));
}

TEST(NvidiaDetection, MissingHelperProgramIsNotBlamedOnTheDriver) {
  DetectionContext context = bare_machine();
  context.environment = Environment::from_map({{"KPT_HELPER_DIR", "/nonexistent_folder"}});
  const NvidiaReport report = detect_nvidia(context);
  EXPECT_EQ(report.finding.presence, Presence::kBroken);
  EXPECT_THAT(report.finding.reason, HasSubstr("kpt-probe"));
  EXPECT_THAT(report.finding.remedy, HasSubstr("reinstall KernelPyTorch"));
}

}  // namespace
}  // namespace kpt
