// One artifact for several devices. The second device is the CPU under another name, with or without a kernel that has
// a wrong constant.
#include <algorithm>
#include <filesystem>
#include <functional>
#include <iterator>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/artifact_loading.h"
#include "api/model_loading.h"
#include "base/scratch_folder.h"
#include "optimize/optimize_json.h"
#include "optimize/several_devices.h"
#include "passes/own_calls.h"
#include "validation/faults.h"
#include "validation/pass_faults.h"

namespace kpt {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using validation_test::make_wrong_device;

class SeveralDevices : public ::testing::Test {
 protected:
  static PlacedDevice find_cpu() {
    const Environment environment = Environment::from_process();
    const auto context = make_backend_context(load_config({}, environment).value(), environment).value();
    return find_runnable_device("cpu", context).value();
  }

  Result<SeveralOptimizations> optimize(const std::vector<PlacedDevice>& devices, CompileCache* cache = nullptr,
                                        const std::function<void()>& meanwhile = {}) {
    OptimizeOptions options;
    if (meanwhile) options.progress = [&](std::string_view, double) { meanwhile(); };
    options.level = Level::kConservative;
    options.draws.seed = seed_;
    options.measure = false;
    std::vector<DeviceJob> jobs;
    for (const PlacedDevice& device : devices) jobs.push_back({device, options});
    return optimize_for_devices(model_, jobs, cpu_, 1, path(), cache);
  }

  std::filesystem::path path() const { return folder_.path() / "model.kpt"; }

  // The names of what the artifact has: parts, and whose samples.
  static std::vector<std::string> targets(const Artifact& artifact) {
    std::vector<std::string> names;
    for (const ArtifactTarget& target : artifact.targets) names.push_back(target.name);
    return names;
  }

  unsigned seed_ = std::random_device()();
  ::testing::ScopedTrace trace_{__FILE__, __LINE__, ::testing::Message() << "seed " << seed_};
  ScratchFolder folder_ = ScratchFolder::make("kpt-test-").value();
  ImportedModel model_ = validation_test::make_small_bert(seed_);
  PlacedDevice cpu_ = find_cpu();
  PlacedDevice other_ = make_wrong_device(cpu_, [](ir::Node&) {}, "other:0");
  // Its fused products have another activation; the plain model, which has none, is right there.
  PlacedDevice wrong_ = make_wrong_device(
      cpu_,
      [](ir::Node& node) {
        if (node.target != kLinearTarget) return;
        ir::Argument& activation = validation_test::argument_of(node, "activation");
        if (activation == ir::Argument{std::string("gelu")}) activation = ir::Argument{std::string("gelu_tanh")};
      },
      "wrong:0");
};

TEST_F(SeveralDevices, GiveOneFileWithAPartAndAProofForEach) {
  const auto made = optimize({cpu_, other_});
  ASSERT_TRUE(made.ok()) << made.status().message();
  EXPECT_TRUE(made->passed());
  EXPECT_TRUE(made->written);
  ASSERT_EQ(made->parts.size(), 2U);
  EXPECT_EQ(made->parts[1].report.device, "other:0");
  const auto artifact = read_artifact(path());
  ASSERT_TRUE(artifact.ok()) << artifact.status().message();
  EXPECT_THAT(targets(*artifact), ElementsAre("cpu", "other"));
  for (std::size_t part = 0; part < 2; ++part) {
    EXPECT_EQ(read_optimize_report(artifact->targets[part].report)->device, made->parts[part].report.device);
  }
  for (const char* target : {"cpu", "other"}) {
    const auto opened = open_artifact(path(), target);
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    ASSERT_FALSE(opened->samples.empty());
    for (const ArtifactSample& sample : opened->samples) EXPECT_EQ(sample.target, target);
  }
  // The same passes ran: what they left of the model's weights is there once.
  for (const auto& [name, weight] : artifact->targets[0].weights) {
    const auto twin = artifact->targets[1].weights.find(name);
    ASSERT_NE(twin, artifact->targets[1].weights.end());
    EXPECT_EQ(weight.data(), twin->second.data()) << name;
  }
}

// The system's folder for temporary files is often memory, and parts are as large as models.
TEST_F(SeveralDevices, PartsLieBesideTheFileUntilItIsWhole) {
  std::size_t parts = 0;
  const auto look = [&] {
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
      const bool is_scratch = entry.is_directory() && entry.path().filename().string().starts_with(".model.kpt.");
      if (is_scratch && std::filesystem::exists(entry.path() / "0.kpt")) ++parts;
    }
  };
  ASSERT_TRUE(optimize({cpu_, other_}, nullptr, look)->written);
  EXPECT_GT(parts, 0U) << "the first part, while the second is made";
  const auto left = std::filesystem::directory_iterator(folder_.path());
  EXPECT_EQ(std::distance(left, std::filesystem::directory_iterator()), 1) << "the file alone";
}

TEST_F(SeveralDevices, ARefusalOnOneIsNamedAndLeavesNoFile) {
  const auto made = optimize({cpu_, wrong_, other_});
  ASSERT_TRUE(made.ok()) << made.status().message();
  EXPECT_FALSE(made->passed());
  EXPECT_FALSE(made->written);
  ASSERT_EQ(made->parts.size(), 2U) << "nothing is optimized behind a refusal";
  EXPECT_TRUE(made->parts[0].report.passed());
  EXPECT_EQ(made->parts[1].report.device, "wrong:0");
  EXPECT_TRUE(made->parts[1].report.culprit.has_value());
  EXPECT_FALSE(std::filesystem::exists(path()));
}

TEST_F(SeveralDevices, EachPartComesFromTheCacheByItself) {
  CompileCache cache = CompileCache::open(folder_.path() / "cache", std::uint64_t{1} << 30U).value();
  ASSERT_TRUE(optimize({other_}, &cache)->written);
  const auto both = optimize({cpu_, other_}, &cache);
  ASSERT_TRUE(both.ok()) << both.status().message();
  EXPECT_FALSE(both->parts[0].from_cache);
  EXPECT_TRUE(both->parts[1].from_cache);
  EXPECT_THAT(targets(read_artifact(path()).value()), ElementsAre("cpu", "other"));
  const auto turned = optimize({other_, cpu_}, &cache);
  EXPECT_TRUE(turned->parts[0].from_cache && turned->parts[1].from_cache);
  EXPECT_THAT(targets(read_artifact(path()).value()), ElementsAre("other", "cpu"));
}

TEST_F(SeveralDevices, OfOneTargetAreRefused) {
  EXPECT_THAT(optimize({cpu_, cpu_}).status().message(), HasSubstr("the device cpu is named twice"));
  const PlacedDevice second = make_wrong_device(cpu_, [](ir::Node&) {}, "other:1");
  EXPECT_THAT(optimize({other_, second}).status().message(),
              HasSubstr("other:0 and other:1 are both other: one part serves them"));
  EXPECT_EQ(optimize({}).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace kpt
