// What random inputs do not meet: indices out of range and casts of numbers that are too large, on XLA's CPU plugin.
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph_run.h"
#include "ir/text.h"
#include "module_runner.h"
#include "numbers_check.h"

namespace kpt {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

Tensor make_tensor(DType dtype, const std::vector<std::int64_t>& dims, const auto& elements) {
  return Tensor::from_bytes(dtype, dims, std::as_bytes(std::span(elements))).value();
}

Result<std::vector<NamedTensor>> run_graph(const char* text, const std::map<std::string, Tensor>& inputs) {
  KPT_ASSIGN_OR_RETURN(const auto runner, xla_test::ModuleRunner::open());
  KPT_ASSIGN_OR_RETURN(const ir::Graph graph, ir::read_graph(text));
  const Weights weights;
  return xla_test::GraphRun(*runner, graph, weights).run(inputs);
}

// 1 + erf(-inf) is zero, so that GELU there is NaN, as PyTorch's is.
TEST(LoweringFunctions, TheErrorFunctionEndsAtOne) {
  if (const auto opened = xla_test::ModuleRunner::open(); !opened.ok()) GTEST_SKIP() << opened.status().message();
  constexpr float kInfinite = std::numeric_limits<float>::infinity();
  const auto outputs = run_graph(
      "kpt_graph 1\ninput x: float32[5]\ne: float32[5] = aten.erf.default(self=%x)\n"
      "g: float32[5] = aten.gelu.default(self=%x)\noutput %e \"e\"\noutput %g \"g\"\n",
      {{"x", make_tensor(DType::kFloat32, {5}, std::array<float, 5>{-kInfinite, -100, 0, 4, kInfinite})}});
  ASSERT_TRUE(outputs.ok()) << outputs.status().message();
  EXPECT_THAT((*outputs)[0].tensor.elements<float>(), ElementsAre(-1, -1, 0, 1, 1));
  const auto gelu = (*outputs)[1].tensor.elements<float>();
  EXPECT_TRUE(std::isnan(gelu[0]));
  EXPECT_EQ(gelu[1], 0);
  EXPECT_EQ(gelu[4], kInfinite);
}

TEST(LoweringFunctions, InfiniteElementsStayInTheirWindows) {
  if (const auto opened = xla_test::ModuleRunner::open(); !opened.ok()) GTEST_SKIP() << opened.status().message();
  constexpr float kInfinite = std::numeric_limits<float>::infinity();
  const auto outputs = run_graph(
      "kpt_graph 1\ninput x: float32[1, 1, 4]\ninput y: float32[1, 1, 1, 3]\n"
      "even: float32[1, 1, 2] = aten.adaptive_avg_pool1d.default(self=%x, output_size=[2])\n"
      "uneven: float32[1, 1, 3] = aten.adaptive_avg_pool1d.default(self=%x, output_size=[3])\n"
      "more: float32[1, 1, 5] = aten.adaptive_avg_pool1d.default(self=%x, output_size=[5])\n"
      "between: float32[1, 1, 2, 6] = aten.upsample_bilinear2d.vec(input=%y, output_size=[2, 6], align_corners=false, "
      "scale_factors=none)\n"
      "output %even \"even\"\noutput %uneven \"uneven\"\noutput %more \"more\"\noutput %between \"between\"\n",
      {{"x", make_tensor(DType::kFloat32, {1, 1, 4}, std::array<float, 4>{kInfinite, 1, 2, 4})},
       {"y", make_tensor(DType::kFloat32, {1, 1, 1, 3}, std::array<float, 3>{kInfinite, 1, 3})}});
  ASSERT_TRUE(outputs.ok()) << outputs.status().message();
  EXPECT_THAT((*outputs)[0].tensor.elements<float>(), ElementsAre(kInfinite, 3));
  EXPECT_THAT((*outputs)[1].tensor.elements<float>(), ElementsAre(kInfinite, 1.5, 3));
  EXPECT_THAT((*outputs)[2].tensor.elements<float>(), ElementsAre(kInfinite, kInfinite, 1.5, 3, 4));
  // Of its two rows the first takes nothing of the second, and nothing of an infinite element is NaN, in PyTorch too.
  EXPECT_THAT((*outputs)[3].tensor.elements<float>().last(6),
              ElementsAre(kInfinite, kInfinite, kInfinite, 1.5, 2.5, 3));
  EXPECT_THAT((*outputs)[3].tensor.elements<float>().subspan(3, 3), ElementsAre(1.5, 2.5, 3));
}

TEST(LoweringFunctions, InfinityAndZerosAreThoseOfPyTorch) {
  if (const auto opened = xla_test::ModuleRunner::open(); !opened.ok()) GTEST_SKIP() << opened.status().message();
  constexpr float kInfinite = std::numeric_limits<float>::infinity();
  const auto outputs = run_graph(
      "kpt_graph 1\ninput x: float32[4]\ninput y: float32[4]\ninput a: float32[4]\ninput b: float32[4]\n"
      "h: float32[4] = aten.hypot.default(self=%x, other=%y)\n"
      "q: float32[4] = aten.floor_divide.default(self=%a, other=%b)\n"
      "output %h \"hypot\"\noutput %q \"quotient\"\n",
      {{"x", make_tensor(DType::kFloat32, {4}, std::array<float, 4>{kInfinite, -kInfinite, NAN, 3})},
       {"y", make_tensor(DType::kFloat32, {4}, std::array<float, 4>{kInfinite, 1, -kInfinite, 4})},
       {"a", make_tensor(DType::kFloat32, {4}, std::array<float, 4>{0, -0.0F, -0.0F, 1})},
       {"b", make_tensor(DType::kFloat32, {4}, std::array<float, 4>{-1, 1, -1, 4})}});
  ASSERT_TRUE(outputs.ok()) << outputs.status().message();
  EXPECT_THAT((*outputs)[0].tensor.elements<float>(), ElementsAre(kInfinite, kInfinite, kInfinite, 5));
  const auto quotients = (*outputs)[1].tensor.elements<float>();
  EXPECT_THAT(quotients, ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(std::vector<bool>({std::signbit(quotients[0]), std::signbit(quotients[1]), std::signbit(quotients[2]),
                                 std::signbit(quotients[3])}),
              ElementsAre(true, true, false, false));
}

// Where a mask leaves zeros, a remainder by them is known to be NaN when XLA compiles.
TEST(LoweringFunctions, NanThatTheCompilerSeesStays) {
  if (const auto opened = xla_test::ModuleRunner::open(); !opened.ok()) GTEST_SKIP() << opened.status().message();
  const auto x = make_tensor(DType::kFloat32, {3, 5, 7}, std::vector<float>(105, 1));
  for (const char* name : {"exp", "expm1", "sinh", "cosh", "elu", "selu", "celu", "softplus", "log_sigmoid", "mish",
                           "sigmoid", "tanh", "silu", "gelu"}) {
    SCOPED_TRACE(name);
    const auto outputs = run_graph(
        fmt::format(
            "kpt_graph 1\ninput x: float32[3, 5, 7]\nt: float32[3, 5, 7] = aten.tril.default(self=%x, diagonal=1)\n"
            "w: float32[3, 5, 7] = aten.round.default(self=%t)\n"
            "r: float32[3, 5, 7] = aten.remainder.Scalar_Tensor(self=0.75, other=%w)\n"
            "y: float32[3, 5, 7] = aten.{}.default(self=%r)\noutput %y \"y\"\n",
            name)
            .c_str(),
        {{"x", x}});
    ASSERT_TRUE(outputs.ok()) << outputs.status().message();
    const auto y = (*outputs)[0].tensor.elements<float>();
    for (std::size_t i = 0; i < y.size(); ++i) {
      const bool is_masked = i % 7 > i / 7 % 5 + 1;
      EXPECT_EQ(std::isnan(y[i]), is_masked) << "element " << i << " is " << y[i];
    }
  }
}

TEST(LoweringFunctions, LogarithmsOfPowersAreIntegers) {
  if (const auto opened = xla_test::ModuleRunner::open(); !opened.ok()) GTEST_SKIP() << opened.status().message();
  std::array<float, 254> twos = {};
  for (int power = -126; power < 128; ++power) twos[static_cast<std::size_t>(power + 126)] = std::ldexp(1.0F, power);
  std::array<float, 76> tens = {};
  for (int power = -37; power < 39; ++power) {
    tens[static_cast<std::size_t>(power + 37)] = static_cast<float>(std::pow(10.0, power));
  }
  const std::array<float, 5> ends = {0, -1, std::numeric_limits<float>::infinity(), 1.0000001F, 0.99999994F};
  const auto outputs = run_graph(
      "kpt_graph 1\ninput twos: float32[254]\ninput tens: float32[76]\ninput ends: float32[5]\n"
      "a: float32[254] = aten.log2.default(self=%twos)\nb: float32[76] = aten.log10.default(self=%tens)\n"
      "c: float32[5] = aten.log2.default(self=%ends)\nd: float32[5] = aten.log10.default(self=%ends)\n"
      "output %a \"twos\"\noutput %b \"tens\"\noutput %c \"ends\"\noutput %d \"ends10\"\n",
      {{"twos", make_tensor(DType::kFloat32, {254}, twos)},
       {"tens", make_tensor(DType::kFloat32, {76}, tens)},
       {"ends", make_tensor(DType::kFloat32, {5}, ends)}});
  ASSERT_TRUE(outputs.ok()) << outputs.status().message();
  for (int power = -126; power < 128; ++power) {
    EXPECT_EQ((*outputs)[0].tensor.elements<float>()[static_cast<std::size_t>(power + 126)], static_cast<float>(power));
  }
  for (int power = -37; power < 39; ++power) {
    EXPECT_EQ((*outputs)[1].tensor.elements<float>()[static_cast<std::size_t>(power + 37)], static_cast<float>(power));
  }
  for (const std::size_t output : {2U, 3U}) {
    const auto given = (*outputs)[output].tensor.elements<float>();
    EXPECT_EQ(given[0], -std::numeric_limits<float>::infinity());
    EXPECT_TRUE(std::isnan(given[1]));
    EXPECT_EQ(given[2], std::numeric_limits<float>::infinity());
    EXPECT_NEAR(given[3], output == 2 ? 1.7198e-7 : 5.1772e-8, 1e-11);
    EXPECT_NEAR(given[4], output == 2 ? -8.5991e-8 : -2.5886e-8, 1e-11);
  }
}

// PyTorch's are computed in float64: what comes between is never too large.
TEST(LoweringFunctions, ProductsOfManyComeBackFromLargeNumbers) {
  if (const auto opened = xla_test::ModuleRunner::open(); !opened.ok()) GTEST_SKIP() << opened.status().message();
  constexpr float kInfinite = std::numeric_limits<float>::infinity();
  const auto outputs = run_graph(
      "kpt_graph 1\ninput x: float32[5]\ninput y: float32[5]\n"
      "a: float32[5] = aten.cumprod.default(self=%x, dim=0)\nb: float32[5] = aten.cumprod.default(self=%y, dim=0)\n"
      "output %a \"a\"\noutput %b \"b\"\n",
      {{"x", make_tensor(DType::kFloat32, {5}, std::array<float, 5>{1e-30F, 1e30F, 1e30F, -1e-30F, 1e-30F})},
       {"y", make_tensor(DType::kFloat32, {5}, std::array<float, 5>{-3, 1e30F, 1e30F, 0, kInfinite})}});
  ASSERT_TRUE(outputs.ok()) << outputs.status().message();
  const auto back = (*outputs)[0].tensor.elements<float>();
  EXPECT_FLOAT_EQ(back[0], 1e-30F);
  EXPECT_FLOAT_EQ(back[1], 1);
  EXPECT_FLOAT_EQ(back[2], 1e30F);
  EXPECT_FLOAT_EQ(back[3], -1);
  EXPECT_FLOAT_EQ(back[4], -1e-30F);
  const auto ends = (*outputs)[1].tensor.elements<float>();
  EXPECT_FLOAT_EQ(ends[0], -3);
  EXPECT_FLOAT_EQ(ends[1], -3e30F);
  EXPECT_EQ(ends[2], -kInfinite);
  EXPECT_EQ(ends[3], 0);
  EXPECT_TRUE(std::isnan(ends[4]));
}

TEST(LoweringTypes, AreThoseOfTheResultWherePyTorchConvertsFirst) {
  const auto opened = xla_test::ModuleRunner::open();
  if (!opened.ok()) GTEST_SKIP() << opened.status().message();
  const std::uint64_t seed = std::random_device()();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  xla_test::check_numbers(
      **opened,
      "kpt_graph 1\ninput n: int64[3, 4]\ninput x: float32[3, 1]\ninput u: uint8[3]\ninput ones: bfloat16[2, 4096]\n"
      "before: float32[3, 4] = aten.diff.default(self=%n, prepend=%x)\n"
      "after: float32[3, 4] = aten.diff.default(self=%n, append=%x)\n"
      "soft: float32[3, 4] = aten.softmax.int(self=%n, dim=1, dtype=dtype(float32))\n"
      "logs: float32[3, 4] = aten.log_softmax.int(self=%n, dim=1, dtype=dtype(float32))\n"
      "least: int8[] = aten.full.default(size=[], fill_value=-2, dtype=dtype(int8))\n"
      "one: uint8[3] = aten.bitwise_and.Scalar(self=%u, other=1)\n"
      "moved: uint8[3] = aten.bitwise_right_shift.Tensor(self=%least, other=%one)\n"
      "squares: bfloat16[2, 4096] = aten.mul.Tensor(self=%ones, other=%ones)\n"
      "sums: bfloat16[2] = aten.einsum.default(equation=\"ij->i\", tensors=[%squares])\n"
      "output %before \"before\"\noutput %after \"after\"\noutput %soft \"soft\"\noutput %logs \"logs\"\n"
      "output %moved \"moved\"\noutput %sums \"sums\"\n",
      random);
}

TEST(LoweringWrites, InPlaceFormsWithNamesOfTheirOwnAreLowered) {
  if (const auto opened = xla_test::ModuleRunner::open(); !opened.ok()) GTEST_SKIP() << opened.status().message();
  struct Case {
    const char* call;
    std::array<std::int64_t, 3> wanted;
  };
  const Case cases[] = {
      {"aten.__iand__.Tensor(self=%c, other=%m)", {1, 6, 0}},
      {"aten.__ior__.Tensor(self=%c, other=%m)", {7, 6, -5}},
      {"aten.__ixor__.Tensor(self=%c, other=%m)", {6, 0, -5}},
      {"aten.__iand__.Scalar(self=%c, other=3)", {1, 2, 1}},
      {"aten.__ior__.Scalar(self=%c, other=3)", {7, 7, -5}},
      {"aten.__ixor__.Scalar(self=%c, other=3)", {6, 5, -6}},
      {"aten.__ilshift__.Scalar(self=%c, other=2)", {20, 24, -28}},
      {"aten.__irshift__.Tensor(self=%c, other=%m)", {0, 0, -2}},
      {"aten.floor_divide_.Tensor(self=%c, other=%m)", {1, 1, -4}},
      {"aten.floor_divide_.Tensor(self=%c, other=2)", {2, 3, -4}},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.call);
    // What is written is seen through a view.
    const std::string text = fmt::format(
        "kpt_graph 1\ninput n: int64[1, 3]\ninput m: int64[1, 3]\nc: int64[1, 3] = aten.clone.default(self=%n)\n"
        "v: int64[3] = aten.view.default(self=%c, size=[3])\nr: int64[1, 3] = {}\noutput %v \"v\"\n",
        one.call);
    const auto outputs =
        run_graph(text.c_str(), {{"n", make_tensor(DType::kInt64, {1, 3}, std::array<std::int64_t, 3>{5, 6, -7})},
                                 {"m", make_tensor(DType::kInt64, {1, 3}, std::array<std::int64_t, 3>{3, 6, 2})}});
    ASSERT_TRUE(outputs.ok()) << outputs.status().message();
    EXPECT_THAT((*outputs)[0].tensor.elements<std::int64_t>(), ElementsAreArray(one.wanted));
  }
}

// PyTorch computes a factor into an extent, rounded, and forgets it for an axis that keeps its extent, and for the
// nearest pixel for one that doubles.
TEST(LoweringImages, AreResizedByFactorsAsPyTorchDoes) {
  const auto opened = xla_test::ModuleRunner::open();
  if (!opened.ok()) GTEST_SKIP() << opened.status().message();
  const std::uint64_t seed = std::random_device()();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  std::string text = "kpt_graph 1\ninput x: float32[2, 3, 4, 5]\n";
  std::string outputs;
  // 4.4 and 5.5, 8.4 and 10.5, 4.4 and 10, 5.2 and 6.5 pixels.
  for (const auto& [high, wide, factors] :
       {std::tuple(4, 5, "1.1, 1.1"), {8, 10, "2.1, 2.1"}, {4, 10, "1.1, 2.0"}, {5, 6, "1.3, 1.3"}}) {
    const std::size_t comma = std::string_view(factors).find(',');
    for (const std::string_view kind : {"nearest2d", "bilinear2d"}) {
      for (const std::string_view aligned : {"", ", align_corners=false", ", align_corners=true"}) {
        if ((kind == "nearest2d") != aligned.empty()) continue;
        const std::string name = fmt::format("v{}", text.size());
        text += fmt::format(
            "{0}: float32[2, 3, {1}, {2}] = aten.upsample_{3}.vec(input=%x, output_size=none{4}, scale_factors=[{5}])\n"
            "{0}d: float32[2, 3, {1}, {2}] = aten.upsample_{3}.default(self=%x, output_size=[{1}, {2}]{4}, "
            "scales_h={6}, scales_w={7})\n",
            name, high, wide, kind, aligned, factors, std::string_view(factors).substr(0, comma),
            std::string_view(factors).substr(comma + 2));
        outputs += fmt::format("output %{0} \"{0}\"\noutput %{0}d \"{0}d\"\n", name);
      }
    }
  }
  xla_test::check_numbers(**opened, text + outputs, random);
}

// PyTorch raises for these; a compiled program shows NaN, the least integer or true instead of another element.
constexpr std::int64_t kIds[] = {0, 3, -1, -4,
                                 2};  // of three: 3 and -4 are none, -1 the last where they may be negative

TEST(LoweringIndices, ReadsOutOfRangeShowInEveryType) {
  if (const auto opened = xla_test::ModuleRunner::open(); !opened.ok()) GTEST_SKIP() << opened.status().message();
  const auto outputs = run_graph(
      "kpt_graph 1\ninput table: float32[3, 2]\ninput wide: int64[3]\ninput narrow: int32[3]\ninput bits: bool[3]\n"
      "input ids: int64[5]\n"
      "e: float32[5, 2] = aten.embedding.default(weight=%table, indices=%ids)\n"
      "w: int64[5] = aten.index_select.default(self=%wide, dim=0, index=%ids)\n"
      "n: int32[5] = aten.index.Tensor(self=%narrow, indices=[%ids])\n"
      "b: bool[5] = aten.gather.default(self=%bits, dim=0, index=%ids)\n"
      "output %e \"rows\"\noutput %w \"wide\"\noutput %n \"narrow\"\noutput %b \"bits\"\n",
      {{"table", make_tensor(DType::kFloat32, {3, 2}, std::array<float, 6>{1, 2, 3, 4, 5, 6})},
       {"wide", make_tensor(DType::kInt64, {3}, std::array<std::int64_t, 3>{7, 8, 9})},
       {"narrow", make_tensor(DType::kInt32, {3}, std::array<std::int32_t, 3>{7, 8, 9})},
       {"bits", make_tensor(DType::kBool, {3}, std::array<bool, 3>{false, false, false})},
       {"ids", make_tensor(DType::kInt64, {5}, kIds)}});
  ASSERT_TRUE(outputs.ok()) << outputs.status().message();
  const auto rows = (*outputs)[0].tensor.elements<float>();
  for (const std::size_t row : {1U, 2U, 3U}) {
    EXPECT_TRUE(std::isnan(rows[2 * row]) && std::isnan(rows[2 * row + 1])) << row;
  }
  EXPECT_EQ(rows[0], 1);
  EXPECT_EQ(rows[8], 5);
  constexpr auto kLeast = std::numeric_limits<std::int64_t>::min();
  constexpr auto kLeastNarrow = std::numeric_limits<std::int32_t>::min();
  EXPECT_THAT((*outputs)[1].tensor.elements<std::int64_t>(), ElementsAre(7, kLeast, kLeast, kLeast, 9));
  EXPECT_THAT((*outputs)[2].tensor.elements<std::int32_t>(), ElementsAre(7, kLeastNarrow, 9, kLeastNarrow, 9));
  EXPECT_THAT((*outputs)[3].tensor.elements<bool>(), ElementsAre(false, true, true, true, false));
}

// index, index_put, take, index_fill and take_along_dim with an axis count -1 from the end, the others raise for it.
TEST(LoweringIndices, NegativeOnesCountFromTheEndWhereTheyDoInPyTorch) {
  if (const auto opened = xla_test::ModuleRunner::open(); !opened.ok()) GTEST_SKIP() << opened.status().message();
  const auto outputs = run_graph(
      "kpt_graph 1\ninput x: int64[3]\ninput back: int64[2]\n"
      "read: int64[2] = aten.index.Tensor(self=%x, indices=[%back])\n"
      "taken: int64[2] = aten.take.default(self=%x, index=%back)\n"
      "along: int64[2] = aten.take_along_dim.default(self=%x, indices=%back, dim=0)\n"
      "put: int64[3] = aten.index_put.default(self=%x, indices=[%back], values=%back)\n"
      "filled: int64[3] = aten.index_fill.int_Scalar(self=%x, dim=0, index=%back, value=5)\n"
      "flat: int64[2] = aten.take_along_dim.default(self=%x, indices=%back)\n"
      "added: int64[3] = aten.index_add.default(self=%x, dim=0, index=%back, source=%back)\n"
      "copied: int64[3] = aten.index_copy.default(self=%x, dim=0, index=%back, source=%back)\n"
      "scattered: int64[3] = aten.scatter.src(self=%x, dim=0, index=%back, src=%back)\n"
      "most: int64[3] = aten.scatter_reduce.two(self=%x, dim=0, index=%back, src=%back, reduce=\"amin\")\n"
      "output %read \"read\"\noutput %taken \"taken\"\noutput %along \"along\"\noutput %put \"put\"\n"
      "output %filled \"filled\"\noutput %flat \"flat\"\noutput %added \"added\"\noutput %copied \"copied\"\n"
      "output %scattered \"scattered\"\noutput %most \"least\"\n",
      {{"x", make_tensor(DType::kInt64, {3}, std::array<std::int64_t, 3>{7, 8, 9})},
       {"back", make_tensor(DType::kInt64, {2}, std::array<std::int64_t, 2>{-1, -2})}});
  ASSERT_TRUE(outputs.ok()) << outputs.status().message();
  const auto elements = [&](std::size_t output) { return (*outputs)[output].tensor.elements<std::int64_t>(); };
  constexpr auto kLeast = std::numeric_limits<std::int64_t>::min();
  for (const std::size_t read : {0U, 1U, 2U}) EXPECT_THAT(elements(read), ElementsAre(9, 8)) << read;
  EXPECT_THAT(elements(3), ElementsAre(7, -2, -1));
  EXPECT_THAT(elements(4), ElementsAre(7, 5, 5));
  EXPECT_THAT(elements(5), ElementsAre(kLeast, kLeast));
  EXPECT_THAT(elements(6), ElementsAre(7, 8, 9));  // twice the least is 0 in 64 bits
  for (const std::size_t written : {7U, 8U, 9U}) EXPECT_THAT(elements(written), ElementsAre(kLeast, 8, 9)) << written;
}

TEST(LoweringIndices, WritesOutOfRangeShowInTheNearestPlace) {
  if (const auto opened = xla_test::ModuleRunner::open(); !opened.ok()) GTEST_SKIP() << opened.status().message();
  const auto outputs = run_graph(
      "kpt_graph 1\ninput table: float32[3, 2]\ninput wide: int64[3]\ninput one: int64[1]\ninput two: int64[2]\n"
      "r: float32[1, 2] = aten.slice.Tensor(self=%table, dim=0, start=0, end=1)\n"
      "c: float32[3, 2] = aten.index_copy.default(self=%table, dim=0, index=%one, source=%r)\n"
      "w: int64[3] = aten.index_copy.default(self=%wide, dim=0, index=%one, source=%one)\n"
      "p: int64[3] = aten.index_put.default(self=%wide, indices=[%two], values=%two)\n"
      "output %c \"rows\"\noutput %w \"copied\"\noutput %p \"put\"\n",
      {{"table", make_tensor(DType::kFloat32, {3, 2}, std::array<float, 6>{1, 2, 3, 4, 5, 6})},
       {"wide", make_tensor(DType::kInt64, {3}, std::array<std::int64_t, 3>{7, 8, 9})},
       {"one", make_tensor(DType::kInt64, {1}, std::array<std::int64_t, 1>{7})},
       {"two", make_tensor(DType::kInt64, {2}, std::array<std::int64_t, 2>{1, -9})}});
  ASSERT_TRUE(outputs.ok()) << outputs.status().message();
  const auto rows = (*outputs)[0].tensor.elements<float>();
  EXPECT_THAT(rows.first(4), ElementsAre(1, 2, 3, 4));
  EXPECT_TRUE(std::isnan(rows[4]) && std::isnan(rows[5]));
  constexpr auto kLeast = std::numeric_limits<std::int64_t>::min();
  EXPECT_THAT((*outputs)[1].tensor.elements<std::int64_t>(), ElementsAre(7, 8, kLeast));
  EXPECT_THAT((*outputs)[2].tensor.elements<std::int64_t>(), ElementsAre(kLeast, 1, 9));
}

// PyTorch takes uint8 as a mask, never as indices; int8 here shows that other integers stay indices. Random graphs have
// no such mask: with one value PyTorch 2.15 refuses it on the CPU.
TEST(LoweringIndices, BytesAreAMask) {
  if (const auto opened = xla_test::ModuleRunner::open(); !opened.ok()) GTEST_SKIP() << opened.status().message();
  const auto outputs = run_graph(
      "kpt_graph 1\ninput wide: int64[3]\ninput table: float32[3, 2]\ninput rows: uint8[3]\ninput all: uint8[3, 2]\n"
      "input ids: int8[3]\ninput one: int64[1]\n"
      "v: float32[] = aten.full.default(size=[], fill_value=-1.0, dtype=dtype(float32))\n"
      "w: int64[3] = aten.index_put.default(self=%wide, indices=[%rows], values=%one)\n"
      "r: float32[3, 2] = aten.index_put.default(self=%table, indices=[%rows], values=%v)\n"
      "a: float32[3, 2] = aten.index_put.default(self=%table, indices=[%all], values=%v)\n"
      "i: int64[3] = aten.index_put.default(self=%wide, indices=[%ids], values=%one)\n"
      "output %w \"wide\"\noutput %r \"rows\"\noutput %a \"all\"\noutput %i \"indices\"\n",
      {{"wide", make_tensor(DType::kInt64, {3}, std::array<std::int64_t, 3>{7, 8, 9})},
       {"table", make_tensor(DType::kFloat32, {3, 2}, std::array<float, 6>{1, 2, 3, 4, 5, 6})},
       {"rows", make_tensor(DType::kUInt8, {3}, std::array<std::uint8_t, 3>{0, 2, 0})},
       {"all", make_tensor(DType::kUInt8, {3, 2}, std::array<std::uint8_t, 6>{0, 1, 0, 0, 255, 0})},
       {"ids", make_tensor(DType::kInt8, {3}, std::array<std::int8_t, 3>{0, 2, 0})},
       {"one", make_tensor(DType::kInt64, {1}, std::array<std::int64_t, 1>{1})}});
  ASSERT_TRUE(outputs.ok()) << outputs.status().message();
  EXPECT_THAT((*outputs)[0].tensor.elements<std::int64_t>(), ElementsAre(7, 1, 9));
  EXPECT_THAT((*outputs)[1].tensor.elements<float>(), ElementsAre(1, 2, -1, -1, 5, 6));
  EXPECT_THAT((*outputs)[2].tensor.elements<float>(), ElementsAre(1, -1, 3, 4, -1, 6));
  EXPECT_THAT((*outputs)[3].tensor.elements<std::int64_t>(), ElementsAre(1, 8, 1));
}

TEST(LoweringIndices, MasksWhoseCountMattersAreRefused) {
  if (const auto opened = xla_test::ModuleRunner::open(); !opened.ok()) GTEST_SKIP() << opened.status().message();
  for (const DType dtype : {DType::kBool, DType::kUInt8}) {
    const std::string text = fmt::format(
        "kpt_graph 1\ninput x: int64[3]\ninput m: {}[3]\ninput two: int64[2]\n"
        "p: int64[3] = aten.index_put.default(self=%x, indices=[%m], values=%two)\noutput %p \"put\"\n",
        to_string(dtype));
    const auto outputs =
        run_graph(text.c_str(), {{"x", make_tensor(DType::kInt64, {3}, std::array<std::int64_t, 3>{7, 8, 9})},
                                 {"m", make_tensor(dtype, {3}, std::array<std::uint8_t, 3>{1, 1, 0})},
                                 {"two", make_tensor(DType::kInt64, {2}, std::array<std::int64_t, 2>{1, 2})}});
    ASSERT_FALSE(outputs.ok()) << text;
    EXPECT_THAT(outputs.status().message(), HasSubstr("depends on the contents")) << text;
  }
}

// As PyTorch 2.15's casts (docs/backends/xla.md tells of others); StableHLO's own make NaN of what is too large.
TEST(LoweringCasts, Fp8SaturatesAndKeepsNan) {
  if (const auto opened = xla_test::ModuleRunner::open(); !opened.ok()) GTEST_SKIP() << opened.status().message();
  const float given[] = {1e6F, -1e6F, INFINITY, 465, 0.3F, -0.001F, NAN};
  const float wanted[] = {448, -448, 448, 448, 0.3125F, -0.001953125F};
  const auto outputs = run_graph(
      "kpt_graph 1\ninput x: float32[7]\n"
      "small: float8_e4m3fn[7] = aten.to.dtype(self=%x, dtype=dtype(float8_e4m3fn))\n"
      "back: float32[7] = aten.to.dtype(self=%small, dtype=dtype(float32))\noutput %back \"y\"\n",
      {{"x", make_tensor(DType::kFloat32, {7}, given)}});
  ASSERT_TRUE(outputs.ok()) << outputs.status().message();
  const auto got = (*outputs)[0].tensor.elements<float>();
  for (std::size_t index = 0; index < std::size(wanted); ++index) EXPECT_EQ(got[index], wanted[index]) << index;
  EXPECT_TRUE(std::isnan(got[6]));
}

}  // namespace
}  // namespace kpt
