#include "validation/agreement.h"

#include <algorithm>
#include <complex>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace kpt {
namespace {

template <typename T>
Tensor tensor_of(DType dtype, const std::vector<T>& values) {
  Tensor tensor = Tensor::empty(dtype, Dims{static_cast<std::int64_t>(values.size())}).value();
  std::ranges::copy(values, tensor.elements<T>().begin());
  return tensor;
}

TEST(Agreement, IntegersAreCountedAndNotMeasuredByAnErrorOfFloats) {
  const auto found = measure_agreement(tensor_of<std::int64_t>(DType::kInt64, {1, 2, 3, 4}),
                                       tensor_of<std::int64_t>(DType::kInt64, {1, 7, 3, 1}));
  EXPECT_EQ(found.differing, 2);
  EXPECT_EQ(found.elements, 4);
  EXPECT_EQ(found.max_difference, 5);
  const auto truth = measure_agreement(tensor_of<std::uint8_t>(DType::kBool, {1, 0, 0}),
                                       tensor_of<std::uint8_t>(DType::kBool, {1, 1, 0}));
  EXPECT_EQ(truth.differing, 1);
  EXPECT_EQ(truth.max_difference, 1);
  // One apart, which no float64 can tell.
  constexpr std::int64_t kLarge = std::int64_t{1} << 60;
  const auto large = measure_agreement(tensor_of<std::int64_t>(DType::kInt64, {kLarge}),
                                       tensor_of<std::int64_t>(DType::kInt64, {kLarge + 1}));
  EXPECT_EQ(large.differing, 1);
}

TEST(Agreement, ComplexNumbersAreEqualOrNot) {
  using Complex = std::complex<float>;
  const Tensor first = tensor_of<Complex>(DType::kComplex64, {{1, 2}, {3, 4}});
  const auto equal = measure_agreement(first, tensor_of<Complex>(DType::kComplex64, {{1, 2}, {3, 4}}));
  EXPECT_EQ(equal.differing, 0);
  EXPECT_EQ(equal.max_difference, 0);
  const auto other = measure_agreement(first, tensor_of<Complex>(DType::kComplex64, {{1, 2}, {3, 5}}));
  EXPECT_EQ(other.differing, 1);
}

TEST(Agreement, EqualOnesAreEqualInEveryType) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  for (const DType dtype : {DType::kBool, DType::kUInt8, DType::kInt8, DType::kUInt16, DType::kInt16, DType::kUInt32,
                            DType::kInt32, DType::kUInt64, DType::kInt64}) {
    const Tensor tensor = Tensor::empty(dtype, Dims{3, 5}).value();
    auto* const bytes = static_cast<std::uint8_t*>(tensor.data());
    for (std::size_t index = 0; index < tensor.bytes(); ++index) {
      bytes[index] = static_cast<std::uint8_t>(dtype == DType::kBool ? random() % 2 : random());
    }
    const Tensor other = tensor.contiguous_copy().value();
    EXPECT_EQ(measure_agreement(tensor, other).differing, 0) << to_string(dtype);
    EXPECT_EQ(measure_agreement(tensor, other).max_difference, 0) << to_string(dtype);
    static_cast<std::uint8_t*>(other.data())[tensor.bytes() - 1] ^= 1;
    EXPECT_EQ(measure_agreement(tensor, other).differing, 1) << to_string(dtype);
    EXPECT_TRUE(std::isfinite(measure_agreement(tensor, other).max_difference)) << to_string(dtype);
  }
}

TEST(Agreement, FloatsHaveADifferenceAndACosine) {
  const auto found =
      measure_agreement(tensor_of<float>(DType::kFloat32, {1, 2, 3}), tensor_of<double>(DType::kFloat64, {1, 2, 3.5}));
  EXPECT_FALSE(found.differing.has_value());
  EXPECT_DOUBLE_EQ(found.max_difference, 0.5);
  EXPECT_GT(found.cosine, 0.9);
  EXPECT_LT(found.cosine, 1);
}

TEST(Agreement, WhatCannotBeComparedIsInfinitelyFarApart) {
  const Tensor floats = tensor_of<float>(DType::kFloat32, {1, 2});
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isinf(measure_agreement(floats, tensor_of<float>(DType::kFloat32, {1, kNan})).max_difference));
  EXPECT_TRUE(std::isinf(measure_agreement(floats, tensor_of<float>(DType::kFloat32, {1, 2, 3})).max_difference));
  EXPECT_TRUE(std::isinf(measure_agreement(floats, tensor_of<std::int32_t>(DType::kInt32, {1, 2})).max_difference));
  EXPECT_TRUE(std::isinf(
      measure_agreement(tensor_of<std::int64_t>(DType::kInt64, {1}), tensor_of<std::int32_t>(DType::kInt32, {1}))
          .max_difference));
}

}  // namespace
}  // namespace kpt
