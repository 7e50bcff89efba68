#include "engines/xla/stablehlo/promotion.h"

#include <gtest/gtest.h>

namespace kpt::xla {
namespace {

Operand tensor(DType dtype, Extents dims = {2}) { return {Value{"%x", dtype, std::move(dims)}, std::int64_t{0}}; }
Operand number(Number value) { return {std::nullopt, value}; }

DType promoted(std::initializer_list<Operand> operands) {
  return promote_operands(std::span(operands.begin(), operands.size()));
}

TEST(Promotion, PairsOfTypes) {
  EXPECT_EQ(promote(DType::kBool, DType::kUInt8), DType::kUInt8);
  EXPECT_EQ(promote(DType::kUInt8, DType::kInt8), DType::kInt16);
  EXPECT_EQ(promote(DType::kUInt8, DType::kInt32), DType::kInt32);
  EXPECT_EQ(promote(DType::kInt64, DType::kFloat16), DType::kFloat16);
  EXPECT_EQ(promote(DType::kFloat16, DType::kBFloat16), DType::kFloat32);
  EXPECT_EQ(promote(DType::kBFloat16, DType::kFloat32), DType::kFloat32);
  EXPECT_EQ(promote(DType::kFloat32, DType::kFloat64), DType::kFloat64);
  EXPECT_THROW(promote(DType::kUInt32, DType::kInt8), Refusal);
}

TEST(Promotion, NumbersDoNotWidenTensors) {
  EXPECT_EQ(promoted({tensor(DType::kBFloat16), number(0.1)}), DType::kBFloat16);
  EXPECT_EQ(promoted({tensor(DType::kInt8), number(std::int64_t{1000})}), DType::kInt8);
  EXPECT_EQ(promoted({tensor(DType::kInt32), number(0.5)}), DType::kFloat32);
  EXPECT_EQ(promoted({tensor(DType::kBool), number(std::int64_t{1})}), DType::kInt64);
  EXPECT_EQ(promoted({tensor(DType::kBool), number(true)}), DType::kBool);
}

TEST(Promotion, TensorsWithoutDimsCountLess) {
  EXPECT_EQ(promoted({tensor(DType::kBFloat16), tensor(DType::kFloat64, {})}), DType::kBFloat16);
  EXPECT_EQ(promoted({tensor(DType::kInt32), tensor(DType::kInt64, {})}), DType::kInt32);
  EXPECT_EQ(promoted({tensor(DType::kInt32), tensor(DType::kFloat64, {})}), DType::kFloat64);
  EXPECT_EQ(promoted({tensor(DType::kInt64, {}), number(1.5)}), DType::kFloat32);
  EXPECT_EQ(promoted({tensor(DType::kFloat32, {}), tensor(DType::kFloat64, {})}), DType::kFloat64);
}

}  // namespace
}  // namespace kpt::xla
