#include "cli/commands/compile_estimate.h"

#include <string>

#include <gtest/gtest.h>

#include "ir/text.h"

namespace kpt::cli {
namespace {

constexpr double kProduct = 2.0 * 64 * 32 * 16;

// A product and what follows it, of a type.
std::string product_of(const std::string& dtype) {
  return "kpt_graph 1\ninput x: " + dtype + "[64, 16]\nparameter w: " + dtype + "[32, 16] \"w\"\ny: " + dtype +
         "[64, 32] = aten.linear.default(input=%x, weight=%w)\nz: " + dtype +
         "[64, 32] = aten.relu.default(self=%y)\noutput %z \"z\"\n";
}

// Seconds of arithmetic, on hardware that does 6 operations a second in bfloat16 and `wide` in float32.
double seconds_of(const std::string& text, double flops, double wide, double narrow = 0) {
  CompileFigures figures;
  figures.flops = flops;
  figures.bytes_accessed = 0;
  HardwareRates rates{1, 1, 6};
  rates.wide_flops_per_second = wide;
  rates.narrow_flops_per_second = narrow;
  const ir::Graph graph = ir::read_graph(text).value();
  return estimate_seconds(figures, rates_for(graph, {}, figures, rates)).value();
}

void expect_close(double seconds, double expected) { EXPECT_NEAR(seconds, expected, 1e-9 * expected); }

TEST(CompileEstimate, ProductsOfFloat32TakeTheirPassesAndNothingElseDoes) {
  constexpr double kAll = kProduct + 3000;  // the compiler counts other work, too
  EXPECT_DOUBLE_EQ(seconds_of(product_of("float32"), kAll, 1), kProduct + 3000.0 / 6);
  EXPECT_DOUBLE_EQ(seconds_of(product_of("float32"), kAll, 2), kProduct / 2 + 3000.0 / 6);
  EXPECT_DOUBLE_EQ(seconds_of(product_of("float32"), kAll, 6), kAll / 6);
  EXPECT_DOUBLE_EQ(seconds_of(product_of("float32"), kAll, 0), kAll / 6) << "hardware that tells no such rate";
  EXPECT_DOUBLE_EQ(seconds_of(product_of("bfloat16"), kAll, 1), kAll / 6);
}

TEST(CompileEstimate, TheCompilersCountIsTheMost) {
  EXPECT_DOUBLE_EQ(seconds_of(product_of("float32"), 100, 1), 100) << "it does less than the graph says";
}

TEST(CompileEstimate, WindowsInPaddingDoNotCount) {
  const auto convolution = [](const std::string& more) {
    return "kpt_graph 1\ninput x: float32[1, 4, 10, 10]\nparameter w: float32[8, 4, 3, 3] \"w\"\ny: float32[1, 8, 10, "
           "10] = aten.conv2d." +
           more + ")\noutput %y \"y\"\n";
  };
  constexpr double kWork = 2.0 * 800 * 36;
  const std::string operands = "default(input=%x, weight=%w, bias=none, stride=[1, 1], padding=";
  expect_close(seconds_of(convolution(operands + "[1, 1]"), kWork, 1), 0.64 * kWork + 0.36 * kWork / 6);
  expect_close(seconds_of(convolution(operands + "[0, 0]"), kWork, 1), kWork);
  expect_close(seconds_of(convolution(operands + "[5, 5]"), kWork, 1), kWork / 6);
  expect_close(
      seconds_of(convolution("padding(input=%x, weight=%w, bias=none, stride=[1, 1], padding=\"same\""), kWork, 1),
      kWork / 6);
}

TEST(CompileEstimate, ProductsOfEightBitsSetTheRateOfTheRest) {
  const std::string mixed =
      "kpt_graph 1\ninput x: float32[64, 16]\nparameter w: float32[32, 16] \"w\"\nparameter v: int8[8, 32] \"v\"\n"
      "parameter s: float32[8] \"s\"\ny: float32[64, 32] = aten.linear.default(input=%x, weight=%w)\n"
      "z: float32[64, 8] = kpt.linear_int8.default(input=%y, weight=%v, scale=%s, bias=none, residual=none, "
      "activation=\"none\")\noutput %z \"z\"\n";
  constexpr double kNarrow = 2.0 * 64 * 8 * 32;
  expect_close(seconds_of(mixed, kProduct + kNarrow, 1, 12), kProduct + kNarrow / 12);
  expect_close(seconds_of(mixed, kProduct + kNarrow, 0, 12), (kProduct + kNarrow) / 12);
}

// An FP8 checkpoint: its products are the work, at the rate of eight bits.
TEST(CompileEstimate, ScaledProductsAreOfEightBits) {
  const std::string scaled =
      "kpt_graph 1\ninput x: float8_e4m3fn[64, 16]\nparameter w: float8_e4m3fn[16, 32] \"w\"\n"
      "parameter s: float32[] \"s\"\ny: float32[64, 32] = aten._scaled_mm.default(self=%x, mat2=%w, scale_a=%s, "
      "scale_b=%s, bias=none, scale_result=none, out_dtype=dtype(float32))\noutput %y \"y\"\n";
  const CompileFigures counted = with_counts({}, ir::read_graph(scaled).value(), {});
  EXPECT_EQ(counted.flops, kProduct);
  EXPECT_EQ(counted.bytes_accessed, 64.0 * 16 + 16 * 32 + 4 + 4 * 64 * 32);
  expect_close(seconds_of(scaled, kProduct, 1, 12), kProduct / 12);
}

// Operations, bytes and the rate would speak of different parts of the model.
TEST(CompileEstimate, WhatABranchDecidesIsNotCounted) {
  const std::string branches =
      "kpt_graph 1\ninput x: float32[4, 4]\ninput yes: bool[]\n"
      "cond: float32[4, 4] = higher_order.cond(%yes, graph \"true_graph_0\" {\n  input a: float32[4, 4]\n"
      "  mm: float32[4, 4] = aten.mm.default(self=%a, mat2=%a)\n  output %mm\n}, graph \"false_graph_0\" {\n"
      "  input a: float32[4, 4]\n  sin: float32[4, 4] = aten.sin.default(self=%a)\n  output %sin\n}, [%x])\n"
      "output %cond \"y\"\n";
  const CompileFigures counted = with_counts({}, ir::read_graph(branches).value(), {});
  EXPECT_FALSE(counted.flops || counted.bytes_accessed);
  CompileFigures told;
  told.flops = 128;
  EXPECT_EQ(with_counts(told, ir::read_graph(branches).value(), {}).flops, 128) << "the compiler knows";
}

}  // namespace
}  // namespace kpt::cli
