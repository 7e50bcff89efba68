#include "backends/amd/detect_amd.h"

#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/amd/hip_probe.h"
#include "device/hardware_json.h"
#include "support/hardware_fixture.h"
#include "support/tree_paths.h"

namespace kpt {
namespace {

using testing::HardwareFixture;
using ::testing::HasSubstr;

class AmdMachine : public ::testing::TestWithParam<std::filesystem::path> {};

// Fixtures whose library ends the process run in tests/hardware, with the real helper process.
TEST_P(AmdMachine, GivesTheExpectedReport) {
  const HardwareFixture fixture = HardwareFixture::load(GetParam());
  ::setenv("KPT_FAKE_HIP", fixture.driver_file().c_str(), 1);
  const bool installed = fixture.has_library("libamdhip64.so.6");
  const AmdReport probed =
      probe_hip_runtime({installed ? build_dir() + "/fakes/amd/libamdhip64.so.6" : "libkpt_missing_hip.so.6"});
  // The way through the child: what it prints is read back.
  const std::string printed = nlohmann::ordered_json(probed).dump();
  const AmdReport report = combine_amd(fixture.context(), parse_report<AmdReport>(printed, "the probe for amd"));
  EXPECT_EQ(testing::find_difference(fixture.expect(), report), std::nullopt) << fixture.description();
}

INSTANTIATE_TEST_SUITE_P(Fixtures, AmdMachine, ::testing::ValuesIn(testing::list_fixtures_that_return("amd")),
                         testing::FixtureName());

TEST(AmdDetection, CrashWithoutAnyHardwareIsStillSaid) {
  DetectionContext context;
  context.files = SystemFiles("/nonexistent_root");
  context.environment = Environment::from_map({});
  const AmdReport report =
      combine_amd(context, Status(StatusCode::kVendorLibrary, "the probe for amd failed: killed by signal 6"));
  EXPECT_EQ(report.finding.presence, Presence::kBroken);
  EXPECT_THAT(report.finding.reason, HasSubstr("signal 6"));
}

}  // namespace
}  // namespace kpt
