// The conversions against the definition of each type, on the host.
#include "kernels/gpu/numbers.h"

#include <cmath>
#include <limits>
#include <random>

#include "kernels/gpu/gpu_testing.h"

namespace kpt::gpu {
namespace {

using testing::decode;

template <typename T>
struct TypeOf;
template <>
struct TypeOf<Half> {
  static constexpr DType kDType = DType::kFloat16;
  static constexpr std::uint32_t kCodes = 65536, kLargest = 0x7bff;
  static constexpr bool kSaturates = false;
};
template <>
struct TypeOf<BFloat> {
  static constexpr DType kDType = DType::kBFloat16;
  static constexpr std::uint32_t kCodes = 65536, kLargest = 0x7f7f;
  static constexpr bool kSaturates = false;
};
template <>
struct TypeOf<E4M3> {
  static constexpr DType kDType = DType::kFloat8E4M3FN;
  static constexpr std::uint32_t kCodes = 256, kLargest = 0x7e;
  static constexpr bool kSaturates = true;
};
template <>
struct TypeOf<E4M3Fnuz> {
  static constexpr DType kDType = DType::kFloat8E4M3FNUZ;
  static constexpr std::uint32_t kCodes = 256, kLargest = 0x7f;
  static constexpr bool kSaturates = true;
};
template <>
struct TypeOf<E5M2> {
  static constexpr DType kDType = DType::kFloat8E5M2;
  static constexpr std::uint32_t kCodes = 256, kLargest = 0x7b;
  static constexpr bool kSaturates = true;
};
template <>
struct TypeOf<E5M2Fnuz> {
  static constexpr DType kDType = DType::kFloat8E5M2FNUZ;
  static constexpr std::uint32_t kCodes = 256, kLargest = 0x7f;
  static constexpr bool kSaturates = true;
};

template <typename T>
T of_code(std::uint32_t code) {
  return {static_cast<decltype(T::bits)>(code)};
}

template <typename T>
class Number : public ::testing::Test {};
using Types = ::testing::Types<Half, BFloat, E4M3, E4M3Fnuz, E5M2, E5M2Fnuz>;
TYPED_TEST_SUITE(Number, Types);

TYPED_TEST(Number, EveryCodeHasItsValueAndComesBack) {
  for (std::uint32_t code = 0; code < TypeOf<TypeParam>::kCodes; ++code) {
    const double wanted = decode(TypeOf<TypeParam>::kDType, code);
    const float got = to_float(of_code<TypeParam>(code));
    if (std::isnan(wanted)) {
      ASSERT_TRUE(std::isnan(got)) << code;
      ASSERT_TRUE(std::isnan(to_float(from_float<TypeParam>(got)))) << code;
      continue;
    }
    ASSERT_EQ(static_cast<double>(got), wanted) << code;
    if (std::isinf(got) && TypeOf<TypeParam>::kSaturates) continue;
    ASSERT_EQ(from_float<TypeParam>(got).bits, code);
  }
}

TYPED_TEST(Number, RoundsToTheNearestAndTiesToEven) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 20000; ++round) {
    const auto low = static_cast<std::uint32_t>(random() % TypeOf<TypeParam>::kLargest);
    const double below = decode(TypeOf<TypeParam>::kDType, low);
    const double above = decode(TypeOf<TypeParam>::kDType, low + 1);
    const auto middle = static_cast<float>((below + above) / 2);
    ASSERT_EQ(from_float<TypeParam>(middle).bits, low + (low & 1U)) << low;
    ASSERT_EQ(from_float<TypeParam>(std::nextafter(middle, 0.0F)).bits, low) << low;
    ASSERT_EQ(from_float<TypeParam>(std::nextafter(middle, HUGE_VALF)).bits, low + 1) << low;
    const double negative = static_cast<double>(to_float(from_float<TypeParam>(-middle)));
    ASSERT_EQ(negative, -decode(TypeOf<TypeParam>::kDType, low + (low & 1U))) << low;
  }
}

TYPED_TEST(Number, WhatIsTooLargeSaturatesOrBecomesInfinite) {
  constexpr DType kDType = TypeOf<TypeParam>::kDType;
  const double largest = decode(kDType, TypeOf<TypeParam>::kLargest);
  const float infinity = std::numeric_limits<float>::infinity();
  const double limit = TypeOf<TypeParam>::kSaturates ? largest : HUGE_VAL;
  for (const float huge : {infinity, 3.402e38F, static_cast<float>(largest) * 1.5F}) {
    EXPECT_EQ(static_cast<double>(to_float(from_float<TypeParam>(huge))), limit);
    EXPECT_EQ(static_cast<double>(to_float(from_float<TypeParam>(-huge))), -limit);
  }
  EXPECT_EQ(static_cast<double>(to_float(from_float<TypeParam>(static_cast<float>(largest)))), largest);
  EXPECT_TRUE(std::isnan(to_float(from_float<TypeParam>(std::numeric_limits<float>::quiet_NaN()))));
  EXPECT_TRUE(std::isnan(to_float(from_float<TypeParam>(-std::numeric_limits<float>::quiet_NaN()))));
  const float zero = to_float(from_float<TypeParam>(-0.0F));
  EXPECT_EQ(zero, 0.0F);
  const bool fnuz = kDType == DType::kFloat8E4M3FNUZ || kDType == DType::kFloat8E5M2FNUZ;
  EXPECT_EQ(std::signbit(zero), !fnuz);
  EXPECT_EQ(to_float(from_float<TypeParam>(1e-42F)), kDType == DType::kBFloat16 ? to_float(BFloat{0}) : 0.0F);
}

TEST(NumberInt8, RoundsToEvenSaturatesAndHasNoNan) {
  for (int value = -127; value <= 127; ++value) {
    EXPECT_EQ(from_float<Int8>(static_cast<float>(value)), value);
    EXPECT_EQ(from_float<Int8>(static_cast<float>(value) + 0.25F), value);
  }
  EXPECT_EQ(from_float<Int8>(0.5F), 0);
  EXPECT_EQ(from_float<Int8>(1.5F), 2);
  EXPECT_EQ(from_float<Int8>(-2.5F), -2);
  EXPECT_EQ(from_float<Int8>(1e30F), 127);
  EXPECT_EQ(from_float<Int8>(-HUGE_VALF), -127);
  EXPECT_EQ(from_float<Int8>(std::nanf("")), 0);
}

}  // namespace
}  // namespace kpt::gpu
