#include "passes/weight_values.h"

#include <bit>
#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include "passes/promote_to_fp64.h"

namespace kpt {
namespace {

TEST(WeightValues, SixteenBitNumbersRoundToTheNearest) {
  std::random_device device;
  const std::uint64_t seed = device();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> exponent(-45, 17);
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    for (int draw = 0; draw < 2000; ++draw) {
      const double value = (draw % 2 == 0 ? 1 : -1) * std::exp2(exponent(random));
      const Tensor made = make_weight(dtype, Dims{1}, std::vector{value}).value();
      const std::uint16_t bits = made.elements<std::uint16_t>()[0];
      const double got = read_as_double(made).value()[0];
      // No neighbour is nearer.
      for (const int step : {-1, 1}) {
        const auto other = static_cast<std::uint16_t>(bits + step);
        const Tensor near = Tensor::from_bytes(dtype, Dims{1}, std::as_bytes(std::span(&other, 1))).value();
        const double neighbour = read_as_double(near).value()[0];
        if (std::isfinite(neighbour) && std::isfinite(got)) {
          EXPECT_LE(std::fabs(value - got), std::fabs(value - neighbour)) << value << " in " << to_string(dtype);
        }
      }
    }
  }
}

TEST(WeightValues, EdgesOfSixteenBitNumbers) {
  const auto half = [](double value) {
    return make_weight(DType::kFloat16, Dims{1}, std::vector{value}).value().elements<std::uint16_t>()[0];
  };
  EXPECT_EQ(half(0.0), 0);
  EXPECT_EQ(half(-0.0), 0x8000);
  EXPECT_EQ(half(65504), 0x7bff);
  EXPECT_EQ(half(65520), 0x7c00);  // half way to the next, which does not exist
  EXPECT_EQ(half(-INFINITY), 0xfc00);
  EXPECT_EQ(half(0x1p-24), 1);
  EXPECT_EQ(half(0x1p-25), 0);  // tie to even
  EXPECT_EQ(half(2047.0 / 2048 * 0x1p-14), 0x0400);
  EXPECT_EQ(half(1 + 0x1p-11), 0x3c00);
  EXPECT_TRUE(
      std::isnan(read_as_double(make_weight(DType::kFloat16, Dims{1}, std::vector<double>{NAN}).value()).value()[0]));
}

TEST(WeightValues, BfloatOfFloatIsThatOfItsDouble) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  std::vector<double> values;
  for (int draw = 0; draw < 5000; ++draw) {
    values.push_back(static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(random()))));
  }
  values.insert(values.end(), {0.0, -0.0, INFINITY, 3.4e38});
  std::erase_if(values, [](double value) { return std::isnan(value); });
  const Dims dims = {static_cast<std::int64_t>(values.size())};
  const Tensor floats = make_weight(DType::kFloat32, dims, values).value();
  const Tensor direct = round_to_bfloat16(floats).value();
  const Tensor through = make_weight(DType::kBFloat16, dims, read_as_double(floats).value()).value();
  const auto a = direct.elements<std::uint16_t>();
  const auto b = through.elements<std::uint16_t>();
  EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin()));
}

TEST(WeightValues, RowsAndTransposes) {
  const std::vector<double> numbers = {1, 2, 3, 4, 5, 6};
  const Tensor matrix = make_weight(DType::kFloat32, Dims{2, 3}, numbers).value();
  const Tensor turned = transpose_matrix(matrix).value();
  EXPECT_EQ(turned.dims(), (Dims{3, 2}));
  EXPECT_EQ(read_as_double(turned).value(), (std::vector<double>{1, 4, 2, 5, 3, 6}));
  const Tensor both = concatenate_rows(std::vector{matrix, matrix}).value();
  EXPECT_EQ(both.dims(), (Dims{4, 3}));
  EXPECT_EQ(read_as_double(both).value()[9], 4);
  EXPECT_FALSE(make_weight(DType::kInt8, Dims{1}, std::vector{1.0}).ok());
  EXPECT_FALSE(make_weight(DType::kFloat32, Dims{2}, std::vector{1.0}).ok());
}

}  // namespace
}  // namespace kpt
