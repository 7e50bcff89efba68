#include "backends/tpu/detect_tpu.h"

#include <gtest/gtest.h>

#include "device/hardware_json.h"
#include "device/python_environments.h"
#include "support/hardware_fixture.h"

namespace kpt {
namespace {

using testing::HardwareFixture;

class TpuDetection : public ::testing::TestWithParam<std::filesystem::path> {};

TEST_P(TpuDetection, MatchesTheRecordedMachine) {
  const HardwareFixture fixture = HardwareFixture::load(GetParam());
  DetectionContext context = fixture.context();
  context.site_packages = find_site_packages(context.environment, "");
  const TpuReport report = detect_tpu(context);
  const nlohmann::ordered_json json = report;
  EXPECT_EQ(testing::find_difference(fixture.expect(), json), std::nullopt) << fixture.description() << "\n"
                                                                            << json.dump(2);
  // True of every machine: what does not work has a reason, what is broken has a remedy.
  EXPECT_EQ(report.finding.presence == Presence::kPresent, report.finding.reason.empty());
  EXPECT_EQ(report.finding.presence == Presence::kBroken, !report.finding.remedy.empty());
}

INSTANTIATE_TEST_SUITE_P(Fixtures, TpuDetection, ::testing::ValuesIn(testing::list_fixtures("tpu")),
                         [](const auto& parameter) { return parameter.param.stem().string(); });

}  // namespace
}  // namespace kpt
