// The whole way: detection starts kpt-probe, which finds the fake library through the loader's search path, and reads
// what it printed or how it ended.
#include <cstdlib>

#include <gtest/gtest.h>

#include "backends/amd/detect_amd.h"
#include "backends/nvidia/detect_nvidia.h"
#include "device/hardware_json.h"
#include "support/hardware_fixture.h"
#include "support/tree_paths.h"

namespace kpt {
namespace {

using testing::HardwareFixture;

DetectionContext context_of(const HardwareFixture& fixture) {
  DetectionContext context = fixture.context();
  // A library that hangs must not cost the test the usual limit; one that crashes may take long under load.
  if (fixture.name() == "ends_hang") context.probe_time_limit = std::chrono::milliseconds(700);
  return context;
}

std::vector<std::filesystem::path> fixtures(std::string_view kind, const std::string& working) {
  std::vector<std::filesystem::path> paths = testing::list_fixtures(kind);
  std::erase_if(paths, [&](const std::filesystem::path& path) {
    return path.stem() != working && !path.stem().string().starts_with("ends_");
  });
  return paths;
}

class NvidiaLibrary : public ::testing::TestWithParam<std::filesystem::path> {};

TEST_P(NvidiaLibrary, IsAskedInAChildProcess) {
  const HardwareFixture fixture = HardwareFixture::load(GetParam());
  ::setenv("LD_LIBRARY_PATH", (build_dir() + "/fakes/nvidia").c_str(), 1);
  ::setenv("KPT_FAKE_CUDA", fixture.driver_file().c_str(), 1);
  const NvidiaReport report = detect_nvidia(context_of(fixture));
  EXPECT_EQ(testing::find_difference(fixture.expect(), report), std::nullopt) << fixture.description();
}

INSTANTIATE_TEST_SUITE_P(Fixtures, NvidiaLibrary, ::testing::ValuesIn(fixtures("nvidia", "hopper_h200")),
                         testing::FixtureName());

class HipLibrary : public ::testing::TestWithParam<std::filesystem::path> {};

TEST_P(HipLibrary, IsAskedInAChildProcess) {
  const HardwareFixture fixture = HardwareFixture::load(GetParam());
  ::setenv("LD_LIBRARY_PATH", (build_dir() + "/fakes/amd").c_str(), 1);
  ::setenv("KPT_FAKE_HIP", fixture.driver_file().c_str(), 1);
  const AmdReport report = detect_amd(context_of(fixture));
  EXPECT_EQ(testing::find_difference(fixture.expect(), report), std::nullopt) << fixture.description();
}

INSTANTIATE_TEST_SUITE_P(Fixtures, HipLibrary, ::testing::ValuesIn(fixtures("amd", "cdna3_mi300x")),
                         testing::FixtureName());

}  // namespace
}  // namespace kpt
