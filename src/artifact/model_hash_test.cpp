#include "artifact/model_hash.h"

#include <random>
#include <set>

#include <gtest/gtest.h>

#include "artifact/artifact_sampling.h"

namespace kpt {
namespace {

using testing::random_tensor;

class ModelHash : public ::testing::Test {
 protected:
  ModelHash() : artifact_(testing::small_artifact(random_)), target_(artifact_.targets[0]) {}
  std::string hash() const { return hash_model(target_.graph, target_.weights).value(); }
  unsigned seed_ = std::random_device()();
  std::mt19937 random_{seed_};
  ::testing::ScopedTrace trace_{__FILE__, __LINE__, ::testing::Message() << "seed " << seed_};
  Artifact artifact_;
  ArtifactTarget& target_;
};

TEST_F(ModelHash, EveryBitOfEveryWeightCounts) {
  target_.weights["large"] = random_tensor(random_, DType::kUInt8, {20'000'001});  // enough for several threads
  const std::string whole = hash();
  EXPECT_EQ(whole.size(), 64U);
  EXPECT_EQ(hash(), whole);
  for (const char* name : {"large", "linear.weight"}) {
    const Tensor tensor = target_.weights.at(name);
    auto* bytes = static_cast<unsigned char*>(tensor.data());
    for (int round = 0; round < 4; ++round) {
      const std::size_t at = round == 0 ? 0 : round == 1 ? tensor.bytes() - 1 : random_() % tensor.bytes();
      const auto bit = static_cast<unsigned char>(1U << (random_() % 8));
      bytes[at] ^= bit;
      EXPECT_NE(hash(), whole) << name << " at " << at;
      bytes[at] ^= bit;
    }
  }
  EXPECT_EQ(hash(), whole);
}

TEST_F(ModelHash, NamesTypesExtentsSharingAndGraphCount) {
  std::set<std::string> hashes = {hash()};
  const Weights weights = target_.weights;
  const auto expect_other = [&](const char* what) {
    EXPECT_TRUE(hashes.insert(hash()).second) << what;
    target_.weights = weights;
  };
  target_.weights.erase("head.weight");
  expect_other("one fewer");
  target_.weights["head.weight"] = weights.at("linear.weight").contiguous_copy().value();
  expect_other("not tied any more");
  const Tensor& weight = weights.at("linear.weight");
  target_.weights["linear.weight"] =
      Tensor::from_buffer(weight.buffer(), DType::kInt32, weight.dims(), weight.strides(), 0).value();
  expect_other("another type");
  target_.weights["linear.weight"] =
      Tensor::from_buffer(weight.buffer(), DType::kFloat32, {{2, 8}}, {{8, 1}}, 0).value();
  expect_other("other extents");
  target_.weights["another name"] = weight;
  expect_other("another name");
  target_.graph.nodes[0].target = "aten.other.default";
  expect_other("another graph");
  target_.weights["none"] = Tensor();
  EXPECT_EQ(hash_model(target_.graph, target_.weights).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(ModelHash, WhereTheMemoryLiesDoesNotCount) {
  Weights moved;
  const Tensor copy = target_.weights.at("linear.weight").contiguous_copy().value();
  for (const auto& [name, tensor] : target_.weights) {
    moved[name] = tensor.bytes() == 0
                      ? tensor
                      : Tensor::from_buffer(copy.buffer(), tensor.dtype(), tensor.dims(), tensor.strides(), 0).value();
  }
  EXPECT_EQ(hash_model(target_.graph, moved).value(), hash());
}

}  // namespace
}  // namespace kpt
