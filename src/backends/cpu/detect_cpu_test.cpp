#include "backends/cpu/detect_cpu.h"

#include <gtest/gtest.h>

#include "base/build_info.h"
#include "device/hardware_json.h"
#include "support/hardware_fixture.h"

namespace kpt {
namespace {

using testing::HardwareFixture;

class CpuDetection : public ::testing::TestWithParam<std::filesystem::path> {};

TEST_P(CpuDetection, MatchesTheRecordedMachine) {
  const HardwareFixture fixture = HardwareFixture::load(GetParam());
  const nlohmann::ordered_json report = detect_cpu(fixture.context());
  EXPECT_EQ(testing::find_difference(fixture.expect(), report), std::nullopt) << fixture.description() << "\n"
                                                                              << report.dump(2);
}

INSTANTIATE_TEST_SUITE_P(Fixtures, CpuDetection, ::testing::ValuesIn(testing::list_fixtures("cpu")),
                         [](const auto& parameter) { return parameter.param.stem().string(); });

TEST(CpuDetectionHere, ThisMachineIsRead) {
  const DetectionContext context;
  const CpuReport report = detect_cpu(context);
  EXPECT_EQ(report.architecture, build_info().architecture);
  EXPECT_GE(report.usable_cpus, 1);
  EXPECT_LE(report.usable_cpus, report.logical_cpus);
  EXPECT_GT(report.memory_total_bytes, 0U);
  EXPECT_LT(report.memory_limit_bytes.value_or(0), report.memory_total_bytes);
}

TEST(CpuDetectionHere, MissingFilesAreNotesNotInventions) {
  const testing::TemporaryFolder folder;
  DetectionContext context;
  context.files = SystemFiles(folder.path());
  const CpuReport report = detect_cpu(context);
  EXPECT_EQ(report.architecture, "");
  EXPECT_EQ(report.logical_cpus, 0);
  EXPECT_EQ(report.numa_nodes, 0);
  EXPECT_TRUE(report.isa.empty());
  EXPECT_TRUE(report.caches.empty());
  EXPECT_EQ(report.memory_total_bytes, 0U);
  EXPECT_EQ(report.memory_limit_bytes, std::nullopt);
  EXPECT_EQ(report.notes.size(), 5U);
}

}  // namespace
}  // namespace kpt
