#include "backends/amd/engine_choice.h"

#include <fstream>

#include <gmock/gmock.h>

#include "support/hardware_fixture.h"

namespace kpt {
namespace {

using ::testing::HasSubstr;

// A folder like a wheel's torch/ that is never opened, our modules beside it, and the root of a machine.
class AmdEngineChoice : public ::testing::Test {
 protected:
  AmdEngineChoice() {
    write("torch/version.py", "__version__ = '2.15.0+rocm7.1'\ncuda = None\nhip: Optional[str] = '7.1.25424'\n");
    for (const char* file : {"torch/lib/libtorch_cpu.so", "torch/lib/libtorch_hip.so", "modules/kpt_aten_2_15.so",
                             "modules/kpt_aten_rocm_2_15.so", "root/dev/kfd"}) {
      write(file, "");
    }
  }
  void write(const std::string& file, const std::string& content) const {
    const auto path = folder_.path() / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << content;
  }
  void remove(const std::string& file) const { std::filesystem::remove(folder_.path() / file); }
  AmdEngineDecision choose(AmdEngine wanted = AmdEngine::kAuto) const {
    const TorchSearch search{Environment::from_map({{"KPT_MODULE_DIR", (folder_.path() / "modules").string()}}),
                             (folder_.path() / "torch").string(),
                             {}};
    return choose_amd_engine(search, SystemFiles(folder_.path() / "root"), wanted);
  }

  testing::TemporaryFolder folder_;
};

TEST_F(AmdEngineChoice, LibtorchWhereItsRocmBuildIsAtHand) {
  const AmdEngineDecision engine = choose();
  EXPECT_TRUE(engine.libtorch) << engine.reason;
  EXPECT_THAT(engine.reason, HasSubstr("libtorch 2.15.0+rocm7.1 at "));
}

TEST_F(AmdEngineChoice, OwnKernelsWhereSomethingIsMissing) {
  remove("root/dev/kfd");
  EXPECT_FALSE(choose().libtorch);
  EXPECT_THAT(choose().reason, HasSubstr("no AMD driver"));
  write("root/dev/kfd", "");
  remove("modules/kpt_aten_rocm_2_15.so");
  EXPECT_FALSE(choose().libtorch);
  EXPECT_THAT(choose().reason, HasSubstr("this build has no ROCm engine module"));
  remove("torch/lib/libtorch_hip.so");
  EXPECT_FALSE(choose().libtorch);
  EXPECT_THAT(choose().reason, HasSubstr("was built without ROCm"));
  remove("torch/lib/libtorch_cpu.so");
  EXPECT_FALSE(choose().libtorch);
  EXPECT_THAT(choose().reason, HasSubstr("no lib/libtorch_cpu.so"));
}

TEST_F(AmdEngineChoice, AUsersWordIsFollowed) {
  EXPECT_FALSE(choose(AmdEngine::kNative).libtorch);
  remove("torch/lib/libtorch_hip.so");
  EXPECT_TRUE(choose(AmdEngine::kLibtorch).libtorch);
  EXPECT_EQ(choose(AmdEngine::kLibtorch).reason, "amd.engine says so");
}

}  // namespace
}  // namespace kpt
