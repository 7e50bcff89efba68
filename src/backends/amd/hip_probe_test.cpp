#include "backends/amd/hip_probe.h"

#include <cstdlib>
#include <fstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/amd/fake_hip.h"
#include "support/hardware_fixture.h"
#include "support/tree_paths.h"

namespace kpt {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

AmdReport probe_with(const std::string& spec, const std::string& library = kFakeHip) {
  const testing::TemporaryFolder folder;
  const std::string path = (folder.path() / "spec.json").string();
  std::ofstream(path) << spec;
  ::setenv("KPT_FAKE_HIP", path.c_str(), 1);
  return probe_hip_runtime({"libkpt_no_such_hip.so.7", library});
}

TEST(HipProbe, NoLibraryIsAbsent) {
  const AmdReport report = probe_hip_runtime({"libkpt_no_such_hip.so.7", "libkpt_no_such_hip.so.6"});
  EXPECT_EQ(report.finding.presence, Presence::kAbsent);
  EXPECT_THAT(report.finding.reason, HasSubstr("no HIP runtime"));
}

TEST(HipProbe, LibraryThatCannotBeLoadedIsBroken) {
  const testing::TemporaryFolder folder;
  const std::string path = (folder.path() / "libamdhip64.so.7").string();
  std::ofstream(path) << "text";
  EXPECT_EQ(probe_hip_runtime({path, kFakeHip}).finding.presence, Presence::kBroken);
}

TEST(HipProbe, ReadsVersionAndDevices) {
  const AmdReport report = probe_with(R"({"version": 60443482, "devices": [
    {"name": "AMD Instinct MI210", "gfx": "gfx90a:sramecc+:xnack-", "pci": "0000:27:00.0", "memory_total": 77}]})");
  EXPECT_EQ(report.finding.presence, Presence::kPresent);
  EXPECT_EQ(report.hip_runtime_version, "6.4.43482");
  ASSERT_EQ(report.gpus.size(), 1U);
  EXPECT_EQ(report.gpus[0].gfx_target, "gfx90a");
  EXPECT_EQ(report.gpus[0].architecture, "CDNA2");
  EXPECT_EQ(report.gpus[0].memory_total_bytes, 77U);
}

// Its function has another name and its structure another size and order.
TEST(HipProbe, Rocm5TellsItsTargetToo) {
  const AmdReport report = probe_with(R"({"version": 50221153, "devices": [
    {"name": "AMD Instinct MI210", "gfx": "gfx90a:sramecc+:xnack-", "pci": "0000:27:00.0", "memory_total": 77}]})",
                                      build_dir() + "/fakes/amd_rocm5/libamdhip64.so.5");
  EXPECT_EQ(report.finding.presence, Presence::kPresent);
  EXPECT_EQ(report.hip_runtime_version, "5.2.21153");
  ASSERT_EQ(report.gpus.size(), 1U);
  EXPECT_EQ(report.gpus[0].gfx_target, "gfx90a");
  EXPECT_EQ(report.gpus[0].architecture, "CDNA2");
  EXPECT_EQ(report.gpus[0].memory_total_bytes, 77U);
}

TEST(HipProbe, TargetIsFoundWhereverTheStructureHasIt) {
  for (const int offset : {256, 400, 641, 1160, 1216}) {
    const AmdReport report = probe_with(fmt::format(
        R"({{"version": 1, "properties_offset": {}, "devices": [{{"name": "gfx900 in the name", "gfx": "gfx1100"}}]}})",
        offset));
    ASSERT_EQ(report.gpus.size(), 1U);
    EXPECT_EQ(report.gpus[0].gfx_target, "gfx1100") << offset;
  }
}

TEST(HipProbe, TextThatIsNoTargetIsANote) {
  const AmdReport report = probe_with(R"({"version": 1, "devices": [{"name": "x", "gfx": "gfxA"}]})");
  ASSERT_EQ(report.gpus.size(), 1U);
  EXPECT_EQ(report.gpus[0].gfx_target, "");
  EXPECT_THAT(report.notes, Contains(HasSubstr("no gfx target")));
}

// What Debian's runtime 5.2.3 answers on a machine without an AMD GPU.
TEST(HipProbe, InvalidDeviceFromInitMeansNoDeviceWhenTheCountSaysSo) {
  const AmdReport report = probe_with(R"({"version": 50221153, "calls": {"hipInit": 101, "hipGetDeviceCount": 100}})");
  EXPECT_EQ(report.finding.presence, Presence::kBroken);
  EXPECT_THAT(report.finding.reason, HasSubstr("shows no GPU"));
  EXPECT_EQ(report.hip_runtime_version, "5.2.21153");
}

TEST(HipProbe, ImpossibleCountIsLimited) {
  const AmdReport report = probe_with(R"({"version": 1, "count": 2000000000})");
  EXPECT_LE(report.gpus.size(), 64U);
  EXPECT_THAT(report.notes, Contains(HasSubstr("claims 2000000000 GPUs")));
}

}  // namespace
}  // namespace kpt
