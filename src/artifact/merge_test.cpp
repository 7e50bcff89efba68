#include "artifact/merge.h"

#include <filesystem>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "artifact/artifact_sampling.h"
#include "support/hardware_fixture.h"

namespace kpt {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::random_tensor;
using testing::same_elements;
using testing::TemporaryFolder;

constexpr const char* kGraph = R"(kpt_graph 1
input x: float32[2, 64]
parameter w: float32[64, 64] "w"
parameter own: float32[4] "own"
linear: float32[2, 64] = aten.linear.default(input=%x, weight=%w)
output %linear "y"
)";

class MergeTest : public ::testing::Test {
 protected:
  // A part as it comes from a file of its own: equal bytes, other memory.
  Artifact make(const std::string& target) {
    Artifact made;
    made.producer = "kpt 0.5.0";
    made.source = "model.pt2";
    made.source_sha256 = std::string(64, 'a');
    Weights weights;
    weights["w"] = weight_.contiguous_copy().value();
    weights["own"] = random_tensor(random_, DType::kFloat32, {4});
    made.targets.push_back({target, {}, ir::read_graph(kGraph).value(), weights, R"({"level":"balanced"})"});
    ArtifactSample sample;
    sample.inputs.push_back({"x", input_.contiguous_copy().value()});
    sample.outputs.push_back({"y", random_tensor(random_, DType::kFloat32, {2, 64})});
    sample.reference.push_back({"y", reference_.contiguous_copy().value()});
    made.samples.push_back(std::move(sample));
    return made;
  }

  unsigned seed_ = std::random_device()();
  std::mt19937 random_{seed_};
  ::testing::ScopedTrace trace_{__FILE__, __LINE__, ::testing::Message() << "seed " << seed_};
  Tensor weight_ = random_tensor(random_, DType::kFloat32, {64, 64});
  Tensor input_ = random_tensor(random_, DType::kFloat32, {2, 64});
  Tensor reference_ = random_tensor(random_, DType::kFloat64, {2, 64});
};

TEST_F(MergeTest, PartsKeepTheirSamplesAndWhatIsEqualIsThereOnce) {
  const Artifact cpu = make("cpu");
  const Artifact gpu = make("nvidia:sm_90");
  const auto merged = merge_artifacts({cpu, gpu});
  ASSERT_TRUE(merged.ok()) << merged.status().message();
  ASSERT_EQ(merged->targets.size(), 2U);
  EXPECT_EQ(merged->targets[0].weights.at("w").data(), merged->targets[1].weights.at("w").data());
  EXPECT_NE(merged->targets[0].weights.at("own").data(), merged->targets[1].weights.at("own").data());
  ASSERT_EQ(merged->samples.size(), 2U);
  EXPECT_EQ(merged->samples[0].target, "cpu");
  EXPECT_EQ(merged->samples[1].target, "nvidia:sm_90");
  EXPECT_EQ(merged->samples[0].inputs[0].tensor.data(), merged->samples[1].inputs[0].tensor.data());
  EXPECT_EQ(merged->samples[0].reference[0].tensor.data(), merged->samples[1].reference[0].tensor.data());
  EXPECT_TRUE(same_elements(merged->samples[1].outputs[0].tensor, gpu.samples[0].outputs[0].tensor));

  const TemporaryFolder folder;
  const auto one = folder.path() / "one.kpt";
  const auto both = folder.path() / "both.kpt";
  ASSERT_TRUE(write_artifact(one, cpu).ok());
  ASSERT_TRUE(write_artifact(both, *merged).ok());
  EXPECT_LT(std::filesystem::file_size(both), std::filesystem::file_size(one) + weight_.bytes())
      << "the weight is there once";
  const auto read = read_artifact(both);
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_TRUE(testing::same_artifact(*merged, *read));
}

TEST_F(MergeTest, ASampleOfSeveralPartsStaysWithEach) {
  Artifact both = make("cpu");
  both.targets.push_back(make("xla:cpu").targets[0]);
  const auto merged = merge_artifacts({make("nvidia:sm_90"), both});
  ASSERT_TRUE(merged.ok()) << merged.status().message();
  std::vector<std::string> targets;
  for (const ArtifactSample& sample : merged->samples) targets.push_back(sample.target);
  EXPECT_THAT(targets, ElementsAre("nvidia:sm_90", "cpu", "xla:cpu"));
}

TEST_F(MergeTest, WhatDoesNotGoTogetherIsRefused) {
  EXPECT_THAT(merge_artifacts({}).status().message(), HasSubstr("no artifact"));
  EXPECT_THAT(merge_artifacts({make("cpu"), make("cpu")}).status().message(), HasSubstr("'cpu' is there twice"));
  Artifact other = make("xla:cpu");
  other.source_sha256 = std::string(64, 'b');
  EXPECT_EQ(merge_artifacts({make("cpu"), other}).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace kpt
