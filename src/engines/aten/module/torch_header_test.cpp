// include/kpt/torch.h in a program that links libtorch itself.
#include "kpt/torch.h"

#include <random>

#include <gtest/gtest.h>

namespace kpt {
namespace {

TEST(TorchHeader, MemoryIsSharedBothWays) {
  const at::Tensor theirs = at::arange(12, at::kFloat).view({3, 4});
  const Tensor ours = from_torch(theirs).value();
  EXPECT_EQ(ours.data(), theirs.data_ptr());
  EXPECT_EQ(ours.dims(), (Dims{3, 4}));
  const at::Tensor back = to_torch(ours).value();
  EXPECT_EQ(back.data_ptr(), theirs.data_ptr());
  back[1][2] = 100;
  EXPECT_EQ(theirs[1][2].item<float>(), 100);
}

TEST(TorchHeader, StridesAndOffsetsSurvive) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 50; ++round) {
    const auto size = [&] { return static_cast<std::int64_t>(random() % 5); };
    const at::Tensor base = at::arange(4 * 5 * 6, at::kLong).view({4, 5, 6});
    const at::Tensor view = base.transpose(0, 2).slice(0, size(), 6).slice(2, size() % 4, 4);
    const Tensor ours = from_torch(view).value();
    const at::Tensor back = to_torch(ours).value();
    ASSERT_EQ(back.sizes(), view.sizes());
    EXPECT_TRUE(at::equal(back, view));
  }
}

TEST(TorchHeader, MemoryLivesAsLongAsOneOfBothSides) {
  Tensor ours;
  {
    const at::Tensor theirs = at::full({1000}, 7.0);
    ours = from_torch(theirs).value();
  }
  at::Tensor back = to_torch(ours).value();
  ours = Tensor();
  EXPECT_EQ(back.sum().item<float>(), 7000);
}

TEST(TorchHeader, EveryTypeGoesAndComes) {
  for (const detail::TypePair& pair : detail::kTorchTypes) {
    const Tensor ours = Tensor::empty(pair.ours, Dims{2}).value();
    const at::Tensor theirs = to_torch(ours).value();
    EXPECT_EQ(theirs.scalar_type(), pair.theirs);
    EXPECT_EQ(static_cast<std::size_t>(theirs.element_size()), element_bytes(pair.ours)) << to_string(pair.ours);
    EXPECT_EQ(from_torch(theirs)->dtype(), pair.ours);
  }
}

TEST(TorchHeader, WhatCannotBeSharedIsRefused) {
  EXPECT_FALSE(from_torch(at::arange(3))->device().empty());
  EXPECT_EQ(from_torch(at::eye(3).to_sparse()).status().code(), StatusCode::kUnsupported);
  EXPECT_FALSE(from_torch(at::Tensor())->defined());
  EXPECT_FALSE(to_torch(Tensor())->defined());
}

}  // namespace
}  // namespace kpt
