#include "kernels/cpu/rows.h"

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include <gtest/gtest.h>

namespace kpt::kernels {
namespace {

std::uint16_t narrow(float value, DType dtype) {
  std::uint16_t bits = 0;
  store_row(&value, 1, dtype, &bits);
  return bits;
}

float widen(std::uint16_t bits, DType dtype) {
  float value = 0;
  load_row(&bits, dtype, 1, 1, &value);
  return value;
}

class SmallFloat : public testing::TestWithParam<DType> {};

TEST_P(SmallFloat, EveryValueSurvivesTheWayThroughFloat32) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float value = widen(half, GetParam());
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(widen(narrow(value, GetParam()), GetParam()))) << bits;
    } else {
      ASSERT_EQ(narrow(value, GetParam()), half) << bits;
    }
  }
}

// The nearest of the two neighbours, the even one in the middle.
TEST_P(SmallFloat, RoundsToTheNearest) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  const std::uint16_t greatest = GetParam() == DType::kFloat16 ? 0x7bffU : 0x7f7fU;
  for (int round = 0; round < 100000; ++round) {
    const auto low = static_cast<std::uint16_t>(random() % greatest);
    const float below = widen(low, GetParam());
    const float above = widen(static_cast<std::uint16_t>(low + 1U), GetParam());
    const auto middle = static_cast<float>((static_cast<double>(below) + static_cast<double>(above)) / 2);
    const auto even = static_cast<std::uint16_t>(low + (low & 1U));
    ASSERT_EQ(narrow(middle, GetParam()), even) << low;
    ASSERT_EQ(narrow(std::nextafter(middle, 0.0F), GetParam()), low) << low;
    ASSERT_EQ(narrow(std::nextafter(middle, above), GetParam()), low + 1) << low;
    ASSERT_EQ(narrow(-middle, GetParam()), even | 0x8000U) << low;
  }
}

TEST_P(SmallFloat, LimitsStayLimits) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(widen(narrow(infinity, GetParam()), GetParam()), infinity);
  EXPECT_EQ(widen(narrow(-infinity, GetParam()), GetParam()), -infinity);
  EXPECT_EQ(widen(narrow(std::numeric_limits<float>::max(), GetParam()), GetParam()), infinity);
  EXPECT_TRUE(std::isnan(widen(narrow(std::nanf(""), GetParam()), GetParam())));
  EXPECT_EQ(narrow(-0.0F, GetParam()), 0x8000U);
  if (GetParam() == DType::kFloat16) {
    EXPECT_EQ(widen(narrow(65519.0F, GetParam()), GetParam()), 65504.0F);
    EXPECT_EQ(widen(narrow(65520.0F, GetParam()), GetParam()), infinity);
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, SmallFloat, testing::Values(DType::kBFloat16, DType::kFloat16));

TEST(Rows, StridedRowsAreFound) {
  std::vector<float> memory(24);
  for (std::size_t index = 0; index < memory.size(); ++index) memory[index] = static_cast<float>(index);
  Rows rows;  // memory as [2, 3, 4], seen as [3, 2, 4 backwards in steps of 2]
  rows.data = memory.data();
  rows.rank = 3;
  rows.sizes = {3, 2, 2};
  rows.strides = {4, 12, 2};
  EXPECT_EQ(rows.count(), 6);
  EXPECT_FALSE(rows.is_plain());
  float buffer[2];
  const float* row = float_row(rows, 3, buffer);  // [1][1]
  EXPECT_EQ(row[0], 16.0F);
  EXPECT_EQ(row[1], 18.0F);
}

}  // namespace
}  // namespace kpt::kernels
