#include "engines/xla/stablehlo/builder.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kpt::xla {
namespace {

using ::testing::HasSubstr;

std::string constant_text(const Number& number, DType dtype) {
  Builder builder;
  builder.scalar(number, dtype);
  return builder.text();
}

TEST(Builder, NumbersAreWrittenBitByBit) {
  EXPECT_THAT(constant_text(0.0, DType::kFloat16), HasSubstr("dense<0x0000> : tensor<f16>"));
  EXPECT_THAT(constant_text(-0.0, DType::kFloat16), HasSubstr("dense<0x8000> : tensor<f16>"));
  EXPECT_THAT(constant_text(1.5, DType::kFloat32), HasSubstr("dense<0x3FC00000> : tensor<f32>"));
  EXPECT_THAT(constant_text(1.5, DType::kFloat64), HasSubstr("dense<0x3FF8000000000000> : tensor<f64>"));
  EXPECT_THAT(constant_text(-std::numeric_limits<double>::infinity(), DType::kBFloat16), HasSubstr("dense<0xFF80>"));
  EXPECT_THAT(constant_text(std::nan(""), DType::kFloat32), HasSubstr("dense<0x7FC00000>"));
  EXPECT_THAT(constant_text(true, DType::kBool), HasSubstr("dense<true> : tensor<i1>"));
  EXPECT_THAT(constant_text(std::int64_t{-1}, DType::kUInt8), HasSubstr("dense<255> : tensor<ui8>"));
  EXPECT_THAT(constant_text(2.9, DType::kInt32), HasSubstr("dense<2> : tensor<i32>"));
}

TEST(Builder, HalvesRoundToTheNearestEvenOne) {
  EXPECT_THAT(constant_text(1.0, DType::kFloat16), HasSubstr("dense<0x3C00>"));
  EXPECT_THAT(constant_text(65504.0, DType::kFloat16), HasSubstr("dense<0x7BFF>"));
  EXPECT_THAT(constant_text(65520.0, DType::kFloat16), HasSubstr("dense<0x7C00>"));
  EXPECT_THAT(constant_text(0x1p-24, DType::kFloat16), HasSubstr("dense<0x0001>"));
  EXPECT_THAT(constant_text(0x1p-25, DType::kFloat16), HasSubstr("dense<0x0000>"));
  EXPECT_THAT(constant_text(-0x1p-14, DType::kFloat16), HasSubstr("dense<0x8400>"));
  EXPECT_THAT(constant_text(1 + 0x1p-11, DType::kFloat16), HasSubstr("dense<0x3C00>"));
  EXPECT_THAT(constant_text(1 + 3 * 0x1p-11, DType::kFloat16), HasSubstr("dense<0x3C02>"));
  EXPECT_THAT(constant_text(1 + 0x1p-8, DType::kBFloat16), HasSubstr("dense<0x3F80>"));
  EXPECT_THAT(constant_text(1 + 3 * 0x1p-8, DType::kBFloat16), HasSubstr("dense<0x3F82>"));
}

TEST(Builder, AConstantIsWrittenOnce) {
  Builder builder;
  const Value first = builder.splat(1.0, DType::kFloat32, {2});
  builder.splat(1.0, DType::kFloat32, {3});
  EXPECT_THAT(first.dims, ::testing::ElementsAre(2));
  const std::string text = builder.text();
  EXPECT_EQ(text.find("stablehlo.constant"), text.rfind("stablehlo.constant"));
}

TEST(Builder, LimitsOfEveryType) {
  for (const DType dtype : {DType::kInt8, DType::kInt16, DType::kInt32, DType::kInt64, DType::kUInt8, DType::kBool,
                            DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64}) {
    Builder builder;
    EXPECT_NE(builder.lowest(dtype).name, builder.highest(dtype).name) << to_string(dtype);
  }
  Builder builder;
  builder.lowest(DType::kInt64);
  builder.highest(DType::kUInt8);
  EXPECT_THAT(builder.text(), HasSubstr("-9223372036854775808"));
  EXPECT_THAT(builder.text(), HasSubstr("dense<255>"));
}

TEST(Builder, BulkDataIsHexadecimal) {
  Builder builder;
  builder.dense_ints(std::vector<std::int64_t>{1, -1}, DType::kInt32, {2});
  builder.dense_reals(std::vector<double>{1.0, 2.0}, DType::kBFloat16, {2});
  EXPECT_THAT(builder.text(), HasSubstr("dense<\"0x01000000FFFFFFFF\"> : tensor<2xi32>"));
  EXPECT_THAT(builder.text(), HasSubstr("dense<\"0x803F0040\"> : tensor<2xbf16>"));
}

TEST(Builder, NothingIsWrittenForNothing) {
  Builder builder;
  const Value x{"%x", DType::kFloat32, {2, 3}};
  EXPECT_EQ(builder.reshape(x, {2, 3}).name, "%x");
  EXPECT_EQ(builder.convert(x, DType::kFloat32).name, "%x");
  EXPECT_EQ(builder.transpose(x, {0, 1}).name, "%x");
  EXPECT_EQ(builder.broadcast_to(x, {2, 3}).name, "%x");
  EXPECT_EQ(builder.slice_axis(x, 1, 0, 3).name, "%x");
  EXPECT_EQ(builder.text(), "");
}

TEST(Builder, WhatDoesNotFitIsRefused) {
  Builder builder;
  const Value x{"%x", DType::kFloat32, {2, 3}};
  EXPECT_THROW(builder.reshape(x, {7}), Refusal);
  EXPECT_THROW(builder.broadcast_to(x, {3, 2}), Refusal);
  EXPECT_THROW(type_name(DType::kComplex64, {}), Refusal);
  EXPECT_THROW(element_count({-1}), Refusal);
  EXPECT_THROW(element_count({kMaxNumber, kMaxNumber, 2}), Refusal);
  EXPECT_THROW(as_int(Number{1e30}), Refusal);
  EXPECT_EQ(element_count({}), 1);
  EXPECT_EQ(element_count({3, 0}), 0);
}

}  // namespace
}  // namespace kpt::xla
