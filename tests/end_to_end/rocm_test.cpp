// amd:N through libtorch's ROCm build: which engine is chosen, and the whole way on a libtorch that is one by links
// (tests/fakes), which ends at an NVIDIA GPU, or at a sentence where there is none.
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "program.h"
#include "support/tree_paths.h"

namespace kpt::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class RocmByLinks : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(folder_ + "/torch/lib/libtorch_hip.so")) {
      GTEST_SKIP() << "this build has no libtorch with CUDA";
    }
  }
  ProgramRun run(const std::vector<std::string>& arguments) const {
    return run_kpt(arguments,
                   {"KPT_TORCH_DIR=" + folder_ + "/torch", "KPT_SYSTEM_ROOT=" + folder_ + "/system",
                    "KPT_FAKE_HIP=" + folder_ + "/machine.json", "LD_LIBRARY_PATH=" + build_dir() + "/fakes/amd"});
  }

  std::string folder_ = build_dir() + "/fakes/rocm";
};

TEST_F(RocmByLinks, DoctorSaysWhichEngineRunsModels) {
  const auto engine = [&](const std::string& setting) {
    const auto report = run({"doctor", "--json", "--category", "amd", "--set", setting}).json();
    return find_line(report, "amd", "engine").at("message").get<std::string>();
  };
  EXPECT_THAT(engine("amd.engine=auto"), AllOf(HasSubstr("through libtorch"), HasSubstr("is a ROCm build")));
  EXPECT_EQ(engine("amd.engine=libtorch"), "models run through libtorch: amd.engine says so");
  EXPECT_EQ(engine("amd.engine=native"), "models run as launches of our own kernels: amd.engine says so");
}

TEST_F(RocmByLinks, AModelRunsOrOneSentenceSaysThatThereIsNoGpu) {
  const ProgramRun explained = run({"explain", golden("tied"), "--device", "amd:0"});
  if (explained.exit_code == 0) {  // an NVIDIA GPU is here
    EXPECT_THAT(explained.out, HasSubstr("node by node through libtorch's ROCm library"));
    EXPECT_EQ(run({"validate", golden("tied"), "--devices", "cpu,amd:0"}).exit_code, 0);
    const auto profile = run({"profile", golden("tied"), "--device", "amd:0", "--runs", "3", "--json"}).json();
    EXPECT_TRUE(profile.at("note").is_null()) << profile.at("note");
    ASSERT_FALSE(profile.at("kernels").empty()) << "of libtorch's profiler";
    EXPECT_GT(profile.at("device_busy_microseconds").get<double>(), 0);
    double of_nodes = 0;
    for (const auto& node : profile.at("nodes")) of_nodes += node.at("device_microseconds").get<double>();
    EXPECT_GT(of_nodes, 0) << "a kernel belongs to the node whose call started it";
    return;
  }
  EXPECT_THAT(explained.err, HasSubstr("libtorch's ROCm library sees no AMD GPU here")) << explained.out;
}

}  // namespace
}  // namespace kpt::testing
