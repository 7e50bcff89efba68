#include "known_corners.h"

#include <limits>

#include <gtest/gtest.h>

namespace kpt::model_cases {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

Tensor make(const std::vector<float>& values) {
  Tensor tensor = Tensor::empty(DType::kFloat32, Dims{static_cast<std::int64_t>(values.size())}).value();
  for (std::size_t index = 0; index < values.size(); ++index) tensor.elements<float>()[index] = values[index];
  return tensor;
}

TEST(KnownCorners, OnlyGroupNormsImpossibleLaunchIsKnown) {
  EXPECT_TRUE(find_known_failure("node 'g7' (aten.group_norm.default) failed: CUDA error: invalid argument"));
  EXPECT_TRUE(
      find_known_failure("node 'g7' (aten.group_norm.default) failed: CUDA error: invalid configuration argument"));
  EXPECT_FALSE(find_known_failure("node 'g7' (aten.group_norm.default) failed: CUDA error: an illegal memory access"));
  EXPECT_FALSE(find_known_failure("node 'group_norm' (aten.add.Tensor) failed: CUDA error: invalid argument"));
  EXPECT_FALSE(find_known_failure(""));
}

TEST(KnownCorners, NanIsMendedWhereOneIsExpectedAndNowhereElse) {
  const auto mended = put_ones_for_nan(make({kNan, 2, kNan, 5}), make({1, 1, 3, 5}));
  ASSERT_TRUE(mended.has_value());
  EXPECT_EQ(mended->elements<float>()[0], 1);
  EXPECT_EQ(mended->elements<float>()[1], 2) << "what is wrong stays so";
  EXPECT_TRUE(std::isnan(mended->elements<float>()[2]));
  EXPECT_FALSE(put_ones_for_nan(make({1, kNan}), make({1, kNan})).has_value());
  EXPECT_FALSE(put_ones_for_nan(make({kNan}), make({1, 1})).has_value());
}

TEST(KnownCorners, WhatWasGivenIsNotChanged) {
  const Tensor given = make({kNan});
  ASSERT_TRUE(put_ones_for_nan(given, make({1})).has_value());
  EXPECT_TRUE(std::isnan(given.elements<float>()[0]));
}

}  // namespace
}  // namespace kpt::model_cases
