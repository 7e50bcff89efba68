#include "optimize/optimize.h"

#include <algorithm>
#include <cmath>
#include <random>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "device/hardware_json.h"
#include "ir/text.h"
#include "optimize/fp8_inputs.h"
#include "optimize/optimize_json.h"
#include "optimize/precision_search.h"

namespace kpt {
namespace {

using testing::HasSubstr;

TEST(ChoosePasses, LevelsLessWhatIsDisabled) {
  OptimizeOptions options;
  const auto all = choose_passes(options).value();
  ASSERT_FALSE(all.empty());
  options.disabled = {"common_subexpressions"};
  const auto fewer = choose_passes(options).value();
  EXPECT_EQ(fewer.size() + 2, all.size()) << "it stands twice in the pipeline";
  for (const Pass* pass : fewer) EXPECT_NE(pass->name, "common_subexpressions");
}

TEST(ChoosePasses, EnabledOnesStandWhereThePipelinePutsThem) {
  OptimizeOptions options;
  options.level = Level::kConservative;
  for (const Pass* pass : all_passes()) options.enabled.emplace_back(pass->name);
  const auto chosen = choose_passes(options).value();
  EXPECT_GE(chosen.size(), all_passes().size());
  const auto level = level_passes(Level::kConservative);
  std::size_t next = 0;
  for (const Pass* pass : chosen) {
    if (next < level.size() && pass == level[next]) ++next;
  }
  EXPECT_EQ(next, level.size()) << "the order of the level is kept";
}

TEST(ChoosePasses, AQuantizationThatIsAskedForComesBeforeThoseOfTheLevel) {
  const auto place = [](const std::vector<const Pass*>& passes, std::string_view name) {
    return std::ranges::find(passes, name, &Pass::name) - passes.begin();
  };
  OptimizeOptions options;
  options.level = Level::kAggressive;
  const auto plain = choose_passes(options).value();
  EXPECT_LT(place(plain, "quantize_fp8"), place(plain, "quantize_int8"));
  for (const char* named : {"quantize_int4", "quantize_weights_int8", "quantize_int8"}) {
    options.enabled = {named};
    const auto chosen = choose_passes(options).value();
    for (const char* other : {"quantize_int4", "quantize_fp8", "quantize_int8", "assign_bf16"}) {
      if (std::string_view(other) == named) continue;
      EXPECT_LT(place(chosen, named), place(chosen, other)) << other;
    }
    EXPECT_GT(place(chosen, named), place(chosen, "merge_linear"));
  }
}

TEST(ChoosePasses, AddedOnesStandRightBehindTheOneTheyName) {
  const Pass own = {"own", "", false, [](const Capabilities&) { return Support{}; },
                    [](ir::Graph&, PassContext&) -> Result<PassStats> { return PassStats{}; }};
  OptimizeOptions options;
  options.level = Level::kConservative;
  options.added = {{&own, "fuse_linear"}};
  const auto chosen = choose_passes(options).value();
  ASSERT_EQ(chosen.size(), level_passes(Level::kConservative).size() + 1);
  const auto place = std::ranges::find(chosen, &own);
  ASSERT_NE(place, chosen.end());
  EXPECT_EQ((*(place - 1))->name, "fuse_linear");
  options.disabled = {"fuse_linear"};
  const auto without = choose_passes(options).value();
  EXPECT_NE(std::ranges::find(without, &own), without.end()) << "its place outlives its neighbour";
  options.added = {{&own, "quantize_int8"}};
  EXPECT_THAT(choose_passes(options).status().message(), HasSubstr("none of conservative's"));
  EXPECT_EQ(choose_passes(options).status().code(), StatusCode::kModelOptimization);
  options.added = {{&own, "fuse_linier"}};
  EXPECT_THAT(choose_passes(options).status().message(), HasSubstr("did you mean 'fuse_linear'?"));
}

TEST(ChoosePasses, UnknownNamesAreSentences) {
  OptimizeOptions options;
  options.enabled = {"fold_constantz"};
  EXPECT_THAT(choose_passes(options).status().message(), HasSubstr("did you mean 'fold_constants'?"));
  options.enabled = {"fold_constants"};
  options.disabled = {"fold_constants"};
  EXPECT_EQ(choose_passes(options).status().code(), StatusCode::kInvalidArgument);
}

TEST(OptimizeJson, GoesRoundTrip) {
  OptimizeReport report;
  report.level = report.gate.level = Level::kAggressive;
  report.device = "cpu";
  report.seed = 7;
  report.passes = {{"fold_constants", 3, {"a", "b"}, 1.5, ""}, {"x", 0, {}, 0, "why"}};
  report.dropped = {{"y", "slower"}};
  report.kept_precise = {"linear_3"};
  report.not_quantized = {"linear_4"};
  report.kernels = {{{"linear_1", "linear_2"}, "kpt.linear.default", Taken::kLibrary, "faster"},
                    {{"linear_3"}, "kpt.linear.default", Taken::kOwn, "slower"},
                    {{"conv2d"}, "kpt.conv2d_int8.default", Taken::kUnquantized, "float32 is faster"}};
  report.speed = PairedTimes{2, 1, 2, 1.9, 2.1, 11};
  report.measured_on = "seed 7";
  report.gate.tolerance = 0.5;
  report.gate.last_position = true;
  report.gate.draws = {"seed 7"};
  OutputVerdict verdict;
  verdict.output = "logits";
  verdict.passed = true;
  verdict.bf16_error = 0.25;
  report.gate.outputs = {verdict};
  const std::string text = dump_json(to_json(report));
  const auto back = read_optimize_report(text);
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ(dump_json(to_json(*back)), text);
  EXPECT_TRUE(back->passed());
  ASSERT_EQ(back->kernels.size(), 3U);
  for (std::size_t at = 0; at < 3; ++at) EXPECT_EQ(back->kernels[at].taken, report.kernels[at].taken) << at;
  std::string strange = text;
  strange.replace(strange.find("unquantized"), 11, "guessed");
  EXPECT_EQ(read_optimize_report(strange).status().code(), StatusCode::kCorruptData);
}

TEST(OptimizeJson, OtherTextIsCorruptData) {
  for (const char* text : {"", "[]", "{}", "{\"gate\": 3}", "{\"gate\": {\"level\": \"wild\"}}"}) {
    SCOPED_TRACE(text);
    EXPECT_EQ(read_optimize_report(text).status().code(), StatusCode::kCorruptData);
    EXPECT_EQ(find_optimize_report(text).status().code(), StatusCode::kCorruptData);
  }
  EXPECT_EQ(find_optimize_report(R"({"compiled": {}})").value(), std::nullopt);
}

TEST(KernelChoices, NodesThatAreForgottenGoWithTheirChoices) {
  using Names = std::vector<std::string>;
  std::vector<KernelChoice> choices = {{{"a", "b"}, "kpt.linear.default", Taken::kLibrary, "faster"},
                                       {{"c"}, "kpt.linear.default", Taken::kLibrary, "faster"},
                                       {{"d", "e"}, "kpt.linear.default", Taken::kOwn, "slower"},
                                       {{"f"}, "kpt.linear_int8.default", Taken::kUnquantized, "slower"}};
  EXPECT_EQ(list_nodes(choices, Taken::kLibrary), (Names{"a", "b", "c"}));
  EXPECT_EQ(list_nodes(choices, Taken::kUnquantized), (Names{"f"}));
  forget_nodes(choices, {"b", "c", "d", "x"});
  ASSERT_EQ(choices.size(), 3U) << "one was left without a node";
  EXPECT_EQ(choices[0].nodes, Names{"a"});
  EXPECT_EQ(choices[1].nodes, Names{"e"});
  EXPECT_EQ(list_nodes(choices, Taken::kLibrary), Names{"a"});
}

// Products in float32, int8, bfloat16 and FP8, one after the other.
ir::Graph make_mixed_graph() {
  return ir::read_graph(R"(kpt_graph 1
input x: float32[2, 4]
parameter w: float32[4, 4]
constant q: int8[4, 4]
constant s: float32[4]
constant h: bfloat16[4, 4]
constant f: float8_e4m3fn[4, 4]
a: float32[2, 4] = aten.linear.default(input=%x, weight=%w)
b: float32[2, 4] = kpt.linear_int8.default(input=%a, weight=%q, scale=%s, bias=none, residual=none, activation="none")
c: float32[2, 4] = kpt.linear.default(input=%b, weight=%h, bias=none, residual=none, activation="none")
d: float32[2, 4] = kpt.linear_fp8.default(input=%c, weight=%f, scale=%s, bias=none, residual=none, activation="none")
output %d "d"
)")
      .value();
}

using Names = std::vector<std::string>;

TEST(PrecisionSearch, FindsNodesInNarrowTypes) {
  ImportedModel model;
  model.weights.emplace("w", Tensor::empty(DType::kFloat32, Dims{4, 4}).value());
  EXPECT_EQ(list_low_precision(model, make_mixed_graph()), (Names{"b", "c", "d"}));
}

TEST(PrecisionSearch, QuantizedNodesGoUpFirstAndToWhatTheLevelGivesTheRest) {
  const ir::Graph graph = make_mixed_graph();
  Names ranked = {"c", "d", "b"};
  keep_quantized_only(graph, ranked);
  EXPECT_EQ(ranked, (Names{"d", "b"}));
  Names not_quantized;
  Names kept_precise;
  EXPECT_TRUE(raise_precision(graph, ranked, not_quantized, kept_precise));
  EXPECT_EQ(not_quantized, (Names{"d", "b"}));
  EXPECT_EQ(kept_precise, Names{});
  EXPECT_FALSE(raise_precision(graph, ranked, not_quantized, kept_precise)) << "they stand there already";
  Names rest = {"c"};
  keep_quantized_only(graph, rest);
  EXPECT_TRUE(raise_precision(graph, rest, not_quantized, kept_precise));
  EXPECT_EQ(kept_precise, (Names{"c"}));
}

TEST(PrecisionSearch, ResultsThatPassesMadeHaveTheErrorOfWhatTheyAreMovedTo) {
  const ir::Graph graph = ir::read_graph(R"(kpt_graph 1
constant w: float32[6, 4, 1, 3]
input x: float32[2, 4, 5]
x_image: float32[2, 4, 1, 5] = aten.unsqueeze.default(self=%x, dim=2)
y_image: float32[2, 6, 1, 3] = aten.conv2d.default(input=%x_image, weight=%w)
y: float32[2, 6, 3] = aten.squeeze.dim(self=%y_image, dim=2)
a: float32[2, 6, 1] = aten.slice.Tensor(self=%y, dim=2, start=0, end=1)
b: float32[2, 6, 2] = aten.slice.Tensor(self=%y, dim=2, start=1, end=3)
output %a "a"
output %b "b"
)")
                              .value();
  std::map<std::string, double, std::less<>> errors = {{"x", 0.25}, {"a", 0.5}, {"b", 1.0}};
  follow_moves(graph, errors);
  EXPECT_EQ(errors, (std::map<std::string, double, std::less<>>{
                        {"x", 0.25}, {"x_image", 0.25}, {"y_image", 1.0}, {"y", 1.0}, {"a", 0.5}, {"b", 1.0}}));
}

TEST(PrecisionSearch, SaysWhichTypesTheSpeedDependsOn) {
  ImportedModel model;
  model.weights.emplace("w", Tensor::empty(DType::kFloat32, Dims{4, 4}).value());
  const ir::Graph graph = make_mixed_graph();
  Capabilities fast;
  fast.matrix_dtypes = {DType::kInt8, DType::kBFloat16};
  EXPECT_EQ(list_fast_types(model, graph, fast), (Names{"fast-int8", "fast-bfloat16"})) << "FP8 is not fast there";
  EXPECT_EQ(list_fast_types(model, graph, {}), Names{}) << "what is not fast here needs not be elsewhere";
  model.weights.emplace("h", Tensor::empty(DType::kBFloat16, Dims{4, 4}).value());
  EXPECT_EQ(list_fast_types(model, graph, fast), Names{"fast-int8"}) << "what the model brings itself";
}

TEST(PrecisionSearch, ProductsOfAtenInNarrowTypesCountToo) {
  ImportedModel model;
  model.weights.emplace("w", Tensor::empty(DType::kFloat32, Dims{4, 4}).value());
  Capabilities fast;
  fast.matrix_dtypes = {DType::kBFloat16};
  for (const char* call :
       {"[2, 4] = aten.linear.default(input=%x, weight=%h)", "[2, 4] = aten.conv2d.default(input=%x, weight=%h)"}) {
    const std::string text = fmt::format(
        "kpt_graph 1\ninput x: bfloat16[2, 4]\nconstant h: bfloat16[4, 4]\ny: bfloat16{}\noutput %y \"y\"\n", call);
    EXPECT_EQ(list_fast_types(model, ir::read_graph(text).value(), fast), Names{"fast-bfloat16"}) << call;
  }
}

// All finite magnitudes of a type with so many bits behind the point.
std::vector<double> magnitudes_of(int mantissa_bits, int least_exponent, double greatest) {
  std::vector<double> numbers;
  const int steps = 1 << mantissa_bits;
  for (int each = 0; each < steps; ++each) numbers.push_back(std::ldexp(each, least_exponent - mantissa_bits));
  for (int exponent = least_exponent; exponent < 16; ++exponent) {
    for (int each = steps; each < 2 * steps; ++each) {
      const double number = std::ldexp(each, exponent - mantissa_bits);
      if (number <= greatest) numbers.push_back(number);
    }
  }
  return numbers;
}

// The row's error by trying all numbers of the type; columns count alike.
double nearest_error(const std::vector<double>& row, const std::vector<double>& numbers, double greatest) {
  const double scale = greatest / numbers.back();
  double lost = 0;
  double all = 0;
  for (const double value : row) {
    double least = HUGE_VAL;
    for (const double number : numbers) least = std::min(least, std::fabs(std::fabs(value) - number * scale));
    lost += least * least;
    all += value * value;
  }
  return std::min(1.0, lost / all);
}

TEST(Fp8Inputs, ErrorsAreThoseOfTheNearestNumbers) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  const auto e4m3 = magnitudes_of(3, -6, 448);
  const auto e5m2 = magnitudes_of(2, -14, 57344);
  std::uniform_real_distribution<double> octaves(-24, 3);
  std::normal_distribution<double> normal;
  for (int round = 0; round < 200; ++round) {
    std::vector<double> row(12);
    for (double& value : row) value = std::exp2(octaves(random)) * normal(random);
    double greatest = 0;
    for (const double value : row) greatest = std::max(greatest, std::fabs(value));
    const std::vector<double> columns(row.size(), 0.7);
    const Fp8InputError error = measure_fp8_input(row, columns, true);
    EXPECT_NEAR(error.e4m3, nearest_error(row, e4m3, greatest), 1e-9);
    EXPECT_NEAR(error.e5m2, nearest_error(row, e5m2, greatest), 1e-9);
    EXPECT_EQ(error.rows, 1U);
  }
}

TEST(Fp8Inputs, RangeIsAskedForByRowsThatShareAScaleAndByColumnsThatCount) {
  const std::vector<double> alike = {1, -13.0 / 14, 0.3, 0.11};  // 13/8 · 2^8 of 448: three bits behind the point
  const std::vector<double> columns(4, 1);
  const Fp8InputError even = measure_fp8_input(alike, columns, false);
  EXPECT_LT(even.e4m3, even.e5m2) << "its bit more of each number is what counts";
  // A row that is 2^20 times smaller than the other: with one scale, nothing of it is left in E4M3.
  std::vector<double> apart = alike;
  for (const double value : alike) apart.push_back(std::ldexp(value, -20));
  const Fp8InputError together = measure_fp8_input(apart, columns, false);
  EXPECT_GT(together.e4m3, 0.4);
  EXPECT_LT(together.e5m2, 0.01);
  const Fp8InputError each = measure_fp8_input(apart, columns, true);
  EXPECT_NEAR(each.e4m3, even.e4m3, 1e-12) << "rows with their own scales need no range";
  EXPECT_LT(each.e4m3, each.e5m2);
  // Two elements far above the others, in columns that the weight takes or leaves.
  const std::vector<double> outliers = {1e7, -1e7 * 13 / 14, 1, 0.3};
  const Fp8InputError taken = measure_fp8_input(outliers, columns, true);
  EXPECT_LT(taken.e4m3, taken.e5m2);
  const Fp8InputError left = measure_fp8_input(outliers, std::vector<double>{0, 0, 1, 1}, true);
  EXPECT_GT(left.e4m3, 0.9);
  EXPECT_LT(left.e5m2, 0.01);
}

TEST(Fp8Inputs, ZerosAndWhatIsNoNumberCountAsNothing) {
  const std::vector<double> columns(2, 1);
  EXPECT_EQ(measure_fp8_input({}, columns, true).rows, 0U);
  EXPECT_EQ(measure_fp8_input(std::vector<double>{0, 0}, columns, false).rows, 0U);
  EXPECT_EQ(measure_fp8_input({}, {}, true).rows, 0U);
  const Fp8InputError error = measure_fp8_input(std::vector<double>{NAN, 3, INFINITY, -5, 0, 0}, columns, true);
  EXPECT_EQ(error.rows, 2U);
  EXPECT_NEAR(error.e4m3, 0, 1e-24) << "each row's greatest is exact";
}

}  // namespace
}  // namespace kpt
