// Passes whose effect lies in the weights or depends on them.
#include <cmath>
#include <numeric>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/text.h"
#include "passes/attention_match.h"
#include "passes/graph_edit.h"
#include "passes/own_calls.h"
#include "passes/pass_testing.h"
#include "passes/pipeline.h"
#include "passes/runner.h"
#include "passes/weight_values.h"

namespace kpt {
namespace {

using testing::Contains;
using testing::HasSubstr;

constexpr const char* kWideProducts = R"(kpt_graph 1
parameter w: float32[5, 64]
parameter v: float32[3, 5]
input x: float32[2, 64]
first: float32[2, 5] = kpt.linear.default(input=%x, weight=%w, bias=none, residual=none, activation="relu")
second: float32[2, 3] = kpt.linear.default(input=%first, weight=%v, bias=none, residual=none, activation="none")
output %second "y"
)";

struct Outcome {
  ir::Graph graph;
  Weights weights;
  Weights before;
  PassRecord record;
};

Outcome run_pass(const char* text, const char* pass, std::vector<std::string> kept = {},
                 const std::function<void(Weights&)>& change = {}) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Outcome run;
  run.graph = ir::read_graph(text).value();
  run.weights = pass_testing::draw_weights(run.graph, seed);
  if (change) change(run.weights);
  run.before = run.weights;
  const Capabilities capabilities = pass_testing::full_capabilities();
  PassContext context{run.weights, capabilities, {}, std::move(kept)};
  const auto records = run_passes(std::vector{find_pass(pass)}, run.graph, context);
  EXPECT_TRUE(records.ok()) << records.status().message();
  if (records.ok()) run.record = (*records)[0];
  return run;
}

TEST(QuantizeInt8, EveryElementIsWithinHalfAStepAndRowsOfZerosAreFine) {
  const Outcome run = run_pass(kWideProducts, "quantize_int8", {}, [](Weights& weights) {
    std::fill_n(weights.at("w").elements<float>().begin() + 64, 64, 0.0F);  // row 1
  });
  const std::vector<double> exact = read_as_double(run.before.at("w")).value();
  const auto steps = run.weights.at("w_int8").elements<std::int8_t>();
  const auto scales = run.weights.at("w_int8_scale").elements<float>();
  EXPECT_EQ(scales[1], 1.0F);
  for (std::size_t at = 0; at < exact.size(); ++at) {
    const double scale = scales[at / 64];
    EXPECT_LE(std::fabs(exact[at] - steps[at] * scale), scale * 0.5000001) << at;
    EXPECT_GE(steps[at], -127);
  }
  // The greatest of a row uses the whole range.
  int greatest = 0;
  for (std::size_t at = 0; at < 64; ++at) greatest = std::max(greatest, std::abs(static_cast<int>(steps[at])));
  EXPECT_EQ(greatest, 127);
}

TEST(QuantizeWeightsInt8, StoresTheSameWeightsAsQuantizeInt8AndNeedsNoFastProducts) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  const auto draw = [&](Weights& weights) {
    std::mt19937_64 random(seed);
    for (float& value : weights.at("w").elements<float>()) value = std::normal_distribution<float>()(random);
  };
  const Outcome alone = run_pass(kWideProducts, "quantize_weights_int8", {}, draw);
  const Outcome both = run_pass(kWideProducts, "quantize_int8", {}, draw);
  EXPECT_EQ(alone.record.changes, 2U);
  EXPECT_EQ(read_as_double(alone.weights.at("w_int8")).value(), read_as_double(both.weights.at("w_int8")).value());
  EXPECT_EQ(read_as_double(alone.weights.at("w_int8_scale")).value(),
            read_as_double(both.weights.at("w_int8_scale")).value());
  for (const ir::Node& node : alone.graph.nodes) EXPECT_EQ(node.target, "kpt.linear_weight_int8.default");
}

TEST(QuantizeInt4, GroupsOfARow) {
  const Outcome run = run_pass(kWideProducts, "quantize_int4");
  const std::vector<double> exact = read_as_double(run.before.at("w")).value();
  const Tensor packed = run.weights.at("w_int4");
  EXPECT_EQ(packed.dims(), (Dims{5, 32}));
  EXPECT_EQ(run.weights.at("w_int4_scale").dims(), (Dims{5, 1}));
  for (std::size_t at = 0; at < exact.size(); ++at) {
    const unsigned pair = packed.elements<std::uint8_t>()[at / 2];
    const double step = static_cast<double>(at % 2 == 0 ? pair & 15U : pair >> 4U) - 8;
    const double scale = run.weights.at("w_int4_scale").elements<float>()[at / 64];
    EXPECT_LE(std::fabs(exact[at] - step * scale), scale * 0.5000001) << at;
  }
  EXPECT_THAT(run.record.details, Contains(HasSubstr("second stays as it is")));
}

// Large enough for several threads, and rows of a width that no vector divides.
TEST(Quantize, WhatThreadsGiveIsTheFormulaElementByElement) {
  constexpr const char* kLarge = R"(kpt_graph 1
parameter w: bfloat16[1203, 96]
parameter v: float32[6, 1203]
input x: bfloat16[2, 96]
input y: float32[2, 1203]
first: bfloat16[2, 1203] = kpt.linear.default(input=%x, weight=%w, bias=none, residual=none, activation="none")
second: float32[2, 6] = kpt.linear.default(input=%y, weight=%v, bias=none, residual=none, activation="none")
output %first "a"
output %second "b"
)";
  const auto expect = [](const Outcome& run, const std::string& name, std::size_t width, double limit,
                         const std::function<double(std::size_t)>& step) {
    const std::vector<double> exact = read_as_double(run.before.at(name.substr(0, 1))).value();
    const auto scales = run.weights.at(name + "_scale").elements<float>();
    ASSERT_EQ(scales.size(), exact.size() / width);
    for (std::size_t row = 0; row < scales.size(); ++row) {
      double greatest = 0;
      for (std::size_t at = row * width; at < (row + 1) * width; ++at)
        greatest = std::max(greatest, std::fabs(exact[at]));
      ASSERT_EQ(scales[row], static_cast<float>(greatest / limit)) << row;
      for (std::size_t at = row * width; at < (row + 1) * width; ++at) {
        ASSERT_EQ(step(at), std::nearbyint(exact[at] / static_cast<double>(scales[row]))) << at;
      }
    }
  };
  const Outcome int8 = run_pass(kLarge, "quantize_int8");
  const auto w8 = int8.weights.at("w_int8").elements<std::int8_t>();
  const auto v8 = int8.weights.at("v_int8").elements<std::int8_t>();
  expect(int8, "w_int8", 96, 127, [&](std::size_t at) { return w8[at]; });
  expect(int8, "v_int8", 1203, 127, [&](std::size_t at) { return v8[at]; });
  const Outcome int4 = run_pass(kLarge, "quantize_int4");
  const auto w4 = int4.weights.at("w_int4").elements<std::uint8_t>();
  expect(int4, "w_int4", 32, 7, [&](std::size_t at) { return (at % 2 == 0 ? w4[at / 2] & 15 : w4[at / 2] >> 4) - 8; });
}

TEST(QuantizeFp8, EveryCodeIsTheNearestNumber) {
  // All numbers of the type, by their codes; the two above 0x7e are no numbers.
  std::vector<double> numbers;
  for (int code = 0; code < 0x7f; ++code) {
    const int exponent = code >> 3;
    const int mantissa = code & 7;
    numbers.push_back(exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10));
  }
  for (std::size_t code = 0; code < numbers.size(); ++code) {
    EXPECT_EQ(to_float8_e4m3fn(numbers[code]), code);
    EXPECT_EQ(to_float8_e4m3fn(-numbers[code]), code | 0x80U);
  }
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 20000; ++round) {
    const double value =
        std::ldexp(std::uniform_real_distribution<double>(0, 1)(random), static_cast<int>(random() % 24) - 14);
    const double chosen = numbers[to_float8_e4m3fn(value)];
    for (const double other : numbers) ASSERT_LE(std::fabs(chosen - value), std::fabs(other - value)) << value;
  }
  for (std::size_t code = 0; code + 1 < numbers.size(); ++code) {
    const double middle = (numbers[code] + numbers[code + 1]) / 2;
    EXPECT_EQ(to_float8_e4m3fn(middle), code + code % 2) << "ties go to the even one";
    EXPECT_EQ(to_float8_e4m3fn(std::nextafter(middle, 0)), code);
    EXPECT_EQ(to_float8_e4m3fn(std::nextafter(middle, 1e9)), code + 1);
  }
  EXPECT_EQ(to_float8_e4m3fn(0x1p-1074), 0);
  EXPECT_EQ(to_float8_e4m3fn(1e9), 0x7e);
  EXPECT_EQ(to_float8_e4m3fn(8.5), 0x50) << "ties go to the even one of 8 and 9";
  EXPECT_EQ(to_float8_e4m3fn(9.5), 0x52) << "ties go to the even one of 9 and 10";
}

TEST(Precision, EveryFormOfLinearBesideThePlainOneIsQuantized) {
  for (const ir::OwnOperator& own : ir::own_operators()) {
    EXPECT_EQ(is_quantized_linear(own.target), own.target.starts_with("kpt.linear_")) << own.target;
    const bool quantized =
        own.target.find("int") != std::string_view::npos || own.target.find("fp8") != std::string_view::npos;
    EXPECT_EQ(is_quantized_product(own.target), quantized) << own.target;
  }
}

TEST(Precision, KeptNodesAndStrangeWeightsStay) {
  for (const char* pass : {"quantize_int8", "quantize_weights_int8", "quantize_int4", "assign_bf16"}) {
    const Outcome run = run_pass(kWideProducts, pass, {"first", "second"});
    EXPECT_EQ(run.record.changes, 0U) << pass;
    EXPECT_THAT(run.record.details, Contains(HasSubstr("first stays"))) << pass;
  }
  const Outcome run = run_pass(kWideProducts, "quantize_int8", {},
                               [](Weights& weights) { weights.at("w").elements<float>()[3] = INFINITY; });
  EXPECT_EQ(run.record.changes, 1U);
  EXPECT_THAT(run.record.details, Contains(HasSubstr("no finite number")));
}

TEST(Precision, NodesThatWereSlowerInFewerBitsStayAndSayWhy) {
  constexpr const char* kTwoConvolutions = R"(kpt_graph 1
parameter w: float32[16, 16, 1, 1]
parameter v: float32[16, 16, 1, 1]
input x: float32[1, 16, 4, 4]
first: float32[1, 16, 4, 4] = kpt.conv2d.default(input=%x, weight=%w, bias=none, residual=none, stride=[1, 1], padding=[0, 0], dilation=[1, 1], groups=1, activation="none")
second: float32[1, 16, 4, 4] = kpt.conv2d.default(input=%first, weight=%v, bias=none, residual=none, stride=[1, 1], padding=[0, 0], dilation=[1, 1], groups=1, activation="none")
output %second "y"
)";
  for (const auto& [text, pass] :
       {std::pair(kWideProducts, "quantize_int8"), std::pair(kTwoConvolutions, "quantize_convs_int8")}) {
    SCOPED_TRACE(pass);
    ir::Graph graph = ir::read_graph(text).value();
    Weights weights = pass_testing::draw_weights(graph, 5);
    const Capabilities capabilities = pass_testing::full_capabilities();
    PassContext context{weights, capabilities, {}, {}, {}, {"first"}};
    const auto records = run_passes(std::vector{find_pass(pass)}, graph, context);
    ASSERT_TRUE(records.ok()) << records.status().message();
    EXPECT_THAT((*records)[0].details, Contains("first stays as it is: it was measured to be slower in fewer bits"));
    EXPECT_FALSE(is_quantized_product(graph.nodes[0].target));
    EXPECT_EQ((*records)[0].changes, 1U);
    EXPECT_TRUE(is_quantized_product(graph.nodes[1].target));
  }
}

TEST(Precision, NeedsTheTargetsTypes) {
  Capabilities capabilities = pass_testing::full_capabilities();
  capabilities.matrix_dtypes.clear();
  EXPECT_FALSE(find_pass("assign_bf16")->applies(capabilities).supported);
  EXPECT_FALSE(find_pass("quantize_int8")->applies(capabilities).supported);
  EXPECT_FALSE(find_pass("quantize_fp8")->applies(capabilities).supported);
  EXPECT_TRUE(find_pass("quantize_weights_int8")->applies(capabilities).supported);
  EXPECT_TRUE(find_pass("quantize_int4")->applies(capabilities).supported);
  EXPECT_FALSE(find_pass("quantize_few_rows_int8")->applies(capabilities).supported);
  capabilities.weight_only_rows = 1;
  EXPECT_TRUE(find_pass("quantize_few_rows_int8")->applies(capabilities).supported);
}

// Which type the input takes is the target's word, or that of the data, by name.
TEST(QuantizeFp8, InputsBecomeE5m2WhereTheTargetOrTheDataAskForIt) {
  constexpr const char* kTwo = R"(kpt_graph 1
parameter a: float32[16, 16]
parameter b: float32[16, 16]
input x: float32[4, 16]
first: float32[4, 16] = kpt.linear.default(input=%x, weight=%a, bias=none, residual=none, activation="none")
second: float32[4, 16] = kpt.linear.default(input=%first, weight=%b, bias=none, residual=none, activation="none")
output %second "y"
)";
  const auto run = [&](Fp8Inputs inputs, std::vector<std::string> wide) {
    ir::Graph graph = ir::read_graph(kTwo).value();
    Weights weights = pass_testing::draw_weights(graph, 1);
    Capabilities capabilities = pass_testing::capabilities_for("quantize_fp8");
    capabilities.fp8_inputs = inputs;
    PassContext context{weights, capabilities, {}, {}, {}, {}, std::move(wide)};
    const auto records = run_passes(std::vector{find_pass("quantize_fp8")}, graph, context);
    EXPECT_TRUE(records.ok()) << records.status().message();
    EXPECT_EQ((*records)[0].changes, 2U);
    const auto codes = weights.at("b_fp8").dtype();
    EXPECT_EQ(codes, DType::kFloat8E4M3FN) << "weights stay what they were";
    return std::vector<std::string>{graph.nodes[0].target, graph.nodes[1].target, (*records)[0].details[1]};
  };
  const std::string narrow(kLinearFp8Target);
  const std::string wide(kLinearFp8E5M2Target);
  using Found = std::vector<std::string>;
  EXPECT_EQ(run(Fp8Inputs::kE4M3, {"second"}), (Found{narrow, narrow, "second"}));
  EXPECT_EQ(run(Fp8Inputs::kE5M2, {}), (Found{wide, wide, "second: its input becomes float8_e5m2"}));
  EXPECT_EQ(run(Fp8Inputs::kByData, {}), (Found{narrow, narrow, "second"}));
  EXPECT_EQ(run(Fp8Inputs::kByData, {"second"}), (Found{narrow, wide, "second: its input becomes float8_e5m2"}));
  Capabilities lacking = pass_testing::capabilities_for("quantize_fp8");
  std::erase(lacking.own_operators, kLinearFp8E5M2Target);
  EXPECT_TRUE(find_pass("quantize_fp8")->applies(lacking).supported);
  lacking.fp8_inputs = Fp8Inputs::kByData;
  EXPECT_FALSE(find_pass("quantize_fp8")->applies(lacking).supported);
}

TEST(Precision, Int8TakesSizesThatAreFastOnTheTarget) {
  ir::Graph graph = ir::read_graph(R"(kpt_graph 1
parameter a: float32[8, 16]
parameter b: float32[12, 8]
input x: float32[32, 16]
first: float32[32, 8] = kpt.linear.default(input=%x, weight=%a, bias=none, residual=none, activation="none")
second: float32[32, 12] = kpt.linear.default(input=%first, weight=%b, bias=none, residual=none, activation="none")
output %second "y"
)")
                        .value();
  Weights weights = pass_testing::draw_weights(graph, 1);
  Capabilities capabilities = pass_testing::full_capabilities();
  capabilities.int8_multiple = 8;
  PassContext context{weights, capabilities, {}, {}, {}, {}};
  const auto records = run_passes(std::vector{find_pass("quantize_int8")}, graph, context);
  ASSERT_TRUE(records.ok()) << records.status().message();
  EXPECT_EQ(graph.nodes[0].target, "kpt.linear_int8.default");
  EXPECT_EQ(graph.nodes[1].target, "kpt.linear.default");
  EXPECT_THAT((*records)[0].details, Contains("second stays as it is: products of int8 are slow here with its sizes"));
}

// One product and one convolution of 64 products each, and one of 72.
TEST(Precision, ProductsTooDeepForSumsOfInt8AreLeft) {
  for (const bool conv : {false, true}) {
    const std::string call = conv ? "kpt.conv2d.default" : "kpt.linear.default";
    ir::Graph graph = ir::read_graph(conv ? R"(kpt_graph 1
parameter a: float32[16, 16, 2, 2]
parameter b: float32[16, 18, 2, 2]
input x: float32[1, 16, 4, 4]
input y: float32[1, 18, 4, 4]
first: float32[1, 16, 3, 3] = kpt.conv2d.default(input=%x, weight=%a, bias=none, residual=none, stride=[1, 1], padding=[0, 0], dilation=[1, 1], groups=1, activation="none")
second: float32[1, 16, 3, 3] = kpt.conv2d.default(input=%y, weight=%b, bias=none, residual=none, stride=[1, 1], padding=[0, 0], dilation=[1, 1], groups=1, activation="none")
output %first "first"
output %second "second"
)"
                                          : R"(kpt_graph 1
parameter a: float32[8, 64]
parameter b: float32[8, 72]
input x: float32[4, 64]
input y: float32[4, 72]
first: float32[4, 8] = kpt.linear.default(input=%x, weight=%a, bias=none, residual=none, activation="none")
second: float32[4, 8] = kpt.linear.default(input=%y, weight=%b, bias=none, residual=none, activation="none")
output %first "first"
output %second "second"
)")
                          .value();
    Weights weights = pass_testing::draw_weights(graph, 1);
    Capabilities capabilities = pass_testing::full_capabilities();
    capabilities.int8_depth = 64;
    PassContext context{weights, capabilities, {}, {}, {}, {}};
    const Pass* const pass = find_pass(conv ? "quantize_convs_int8" : "quantize_int8");
    const auto records = run_passes(std::vector{pass}, graph, context);
    ASSERT_TRUE(records.ok()) << records.status().message();
    EXPECT_EQ(graph.nodes[0].target, conv ? "kpt.conv2d_int8.default" : "kpt.linear_int8.default");
    EXPECT_EQ(graph.nodes[1].target, call);
    EXPECT_THAT((*records)[0].details,
                Contains("second stays as it is: sums of so many int8 products do not fit into 32 bits"));
  }
}

TEST(FoldBatchNorm, WeightsAreThoseOfTheFormula) {
  const Outcome run = run_pass(R"(kpt_graph 1
parameter w: float32[2, 1, 1, 1]
parameter b: float32[2]
parameter gamma: float32[2]
parameter beta: float32[2]
buffer mean: float32[2]
buffer var: float32[2]
input x: float32[1, 1, 4, 4]
conv2d: float32[1, 2, 4, 4] = aten.conv2d.default(input=%x, weight=%w, bias=%b)
batch_norm: float32[1, 2, 4, 4] = aten.batch_norm.default(input=%conv2d, weight=%gamma, bias=%beta, running_mean=%mean, running_var=%var, training=false, momentum=0.1, eps=0.125, cudnn_enabled=false)
output %batch_norm "y"
)",
                               "fold_batch_norm");
  const auto old = [&](const char* name, std::size_t at) { return read_as_double(run.before.at(name)).value()[at]; };
  for (std::size_t channel = 0; channel < 2; ++channel) {
    const double scale = old("gamma", channel) / std::sqrt(old("var", channel) + 0.125);
    EXPECT_EQ(run.weights.at("batch_norm_weight").elements<float>()[channel],
              static_cast<float>(old("w", channel) * scale));
    EXPECT_FLOAT_EQ(run.weights.at("batch_norm_bias").elements<float>()[channel],
                    static_cast<float>((old("b", channel) - old("mean", channel)) * scale + old("beta", channel)));
  }
}

TEST(FuseConv, FiltersOfLinesLieInTheWeight) {
  constexpr const char* kLine = R"(kpt_graph 1
parameter w: float32[4, 4, 3]
input x: float32[2, 4, 12]
conv1d: float32[2, 4, 10] = aten.conv1d.default(input=%x, weight=%w, bias=none)
output %conv1d "y"
)";
  const Dims filters = {4, 4, 1, 3};
  // The weight is a part of other memory, or lies turned there and has to be copied.
  for (const bool turned : {false, true}) {
    const Outcome run = run_pass(kLine, "fuse_conv", {}, [&](Weights& weights) {
      const std::int64_t steps[2][3] = {{12, 3, 1}, {12, 1, 4}};
      const Tensor more = Tensor::empty(DType::kFloat32, Dims{53}).value();
      std::iota(more.elements<float>().begin(), more.elements<float>().end(), 0.0F);
      weights.at("w") =
          Tensor::from_buffer(more.buffer(), DType::kFloat32, Dims{4, 4, 3}, std::span(steps[turned ? 1 : 0]), 5)
              .value();
    });
    const Tensor& weight = run.before.at("w");
    const Tensor& made = run.weights.at("conv1d_filters");
    EXPECT_TRUE(std::ranges::equal(made.dims(), filters));
    EXPECT_EQ(made.buffer() == weight.buffer(), !turned);
    EXPECT_EQ(read_as_double(made).value(), read_as_double(weight).value());
  }
}

TEST(FoldConstants, WhatComesOutAsTheFileDoesNotSayIsRefused) {
  ir::Graph graph = ir::read_graph(R"(kpt_graph 1
parameter w: float32[4]
neg: float32[4] = aten.neg.default(self=%w)
output %neg "y"
)")
                        .value();
  const Capabilities capabilities = pass_testing::full_capabilities();
  for (const Tensor& other :
       {Tensor::empty(DType::kFloat32, Dims{5}).value(), Tensor::empty(DType::kFloat32, Dims{4, 1}).value(),
        Tensor::empty(DType::kBFloat16, Dims{4}).value()}) {
    ir::Graph changed = graph;
    Weights weights = pass_testing::draw_weights(graph, 1);
    const Evaluator evaluator = [&](const ir::Graph&, const Weights&) { return std::vector{other}; };
    PassContext context{weights, capabilities, evaluator, {}};
    const auto records = run_passes(std::vector{find_pass("fold_constants")}, changed, context);
    EXPECT_EQ(records.status().code(), StatusCode::kCorruptData) << records.status().message();
    EXPECT_THAT(records.status().message(), HasSubstr("'neg' came out as"));
  }
}

TEST(Attention, MasksOfConstants) {
  ir::Graph graph = ir::read_graph(R"(kpt_graph 1
constant triangle: bool[1, 1, 3, 3]
constant lowest: float32[3, 3]
constant open: bool[2, 1, 1, 3]
constant other: bool[3, 3]
input x: bool[3, 3]
output %x "y"
)")
                        .value();
  Weights weights = pass_testing::draw_weights(graph, 1);
  const auto lowest = weights.at("lowest").elements<float>();
  const auto triangle = weights.at("triangle").elements<bool>();
  const auto other = weights.at("other").elements<bool>();
  for (std::size_t at = 0; at < 9; ++at) {
    const bool seen = at % 3 <= at / 3;
    triangle[at] = seen;
    other[at] = !seen;
    lowest[at] = seen ? 0.0F : std::numeric_limits<float>::lowest();
  }
  std::ranges::fill(weights.at("open").elements<bool>(), true);
  GraphEdit edit(graph, weights);
  EXPECT_EQ(classify_mask(edit, graph.inputs[0].value), MaskKind::kCausal);
  EXPECT_EQ(classify_mask(edit, graph.inputs[1].value), MaskKind::kCausal);
  EXPECT_EQ(classify_mask(edit, graph.inputs[2].value), MaskKind::kNone);
  EXPECT_EQ(classify_mask(edit, graph.inputs[3].value), MaskKind::kAny);
  EXPECT_EQ(classify_mask(edit, graph.inputs[4].value), MaskKind::kAny);
}

}  // namespace
}  // namespace kpt
