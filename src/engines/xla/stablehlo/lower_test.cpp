#include "engines/xla/stablehlo/lower.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <tuple>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engines/xla/stablehlo/call.h"
#include "ir/own_operators.h"
#include "ir/text.h"
#include "support/tree_paths.h"

namespace kpt::xla {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::string read_file(const std::filesystem::path& path) {
  std::ifstream stream(path);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

ir::Graph graph_of(const std::string& text) { return ir::read_graph("kpt_graph 1\n" + text).value(); }

std::filesystem::path data_folder() {
  return std::filesystem::path(source_dir()) / "src/engines/xla/stablehlo/test_data";
}

class LowerGolden : public ::testing::TestWithParam<std::string> {};

// To take over a wanted change, copy the file that the message names.
TEST_P(LowerGolden, TextIsAsRecorded) {
  const auto graph = ir::read_graph(read_file(data_folder() / (GetParam() + ".graph")));
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  SymbolValues sizes;
  sizes.set("s0", 7);
  const auto module = lower(*graph, sizes);
  ASSERT_TRUE(module.ok()) << module.status().message();
  const std::filesystem::path folder = std::filesystem::path(build_dir()) / "stablehlo_golden";
  std::filesystem::create_directories(folder);
  const std::filesystem::path actual = folder / (GetParam() + ".mlir");
  std::ofstream(actual) << module->text;
  EXPECT_EQ(module->text, read_file(data_folder() / (GetParam() + ".mlir"))) << "the text is in " << actual;
}

INSTANTIATE_TEST_SUITE_P(Families, LowerGolden,
                         ::testing::Values("arithmetic", "attention", "comparison", "convolution", "creation",
                                           "indexing", "matmul", "norm", "own", "reduction", "shape", "unary",
                                           "writes"),
                         [](const auto& family) { return family.param; });

TEST(Lower, UnusedInputsAreNoArguments) {
  const auto module = lower(graph_of("parameter w: float32[2] \"w\"\n"
                                     "input unused: float32[3]\n"
                                     "input x: float32[2]\n"
                                     "neg: float32[2] = aten.neg.default(self=%x)\n"
                                     "output %neg \"output\"\n"),
                            {});
  ASSERT_TRUE(module.ok()) << module.status().message();
  EXPECT_THAT(module->arguments, ElementsAre(ModulePlace{2, DType::kFloat32, {2}}));
  EXPECT_THAT(module->results, ElementsAre(ModulePlace{0, DType::kFloat32, {2}}));
  EXPECT_EQ(module->output_count, 1U);
}

TEST(Lower, WrittenBuffersFollowTheOutputs) {
  const auto module = lower(graph_of("buffer b: float32[2] \"state\"\n"
                                     "input x: float32[2]\n"
                                     "copy: float32[2] = aten.copy_.default(self=%b, src=%x)\n"
                                     "output 3 \"number\"\n"
                                     "output %copy \"output\"\n"),
                            {});
  ASSERT_TRUE(module.ok()) << module.status().message();
  EXPECT_EQ(module->output_count, 1U);
  EXPECT_THAT(module->results, ElementsAre(ModulePlace{1, DType::kFloat32, {2}}, ModulePlace{0, DType::kFloat32, {2}}));
  // Overwritten whole: what was there is not needed.
  EXPECT_THAT(module->arguments, ElementsAre(ModulePlace{1, DType::kFloat32, {2}}));
}

TEST(Lower, MutationsOfDecomposedProgramsAreResults) {
  const auto module = lower(graph_of("buffer b: float32[2] \"state\"\n"
                                     "add: float32[2] = aten.add.Tensor(self=%b, other=1)\n"
                                     "buffer_mutation %add \"state\"\n"),
                            {});
  ASSERT_TRUE(module.ok()) << module.status().message();
  EXPECT_EQ(module->output_count, 0U);
  EXPECT_THAT(module->results, ElementsAre(ModulePlace{0, DType::kFloat32, {2}}));
}

TEST(Lower, AllNodesWithoutLoweringAreNamed) {
  const auto module = lower(graph_of("input x: float32[2, 2]\n"
                                     "a: float32[2, 2] = aten.linalg_inv.default(A=%x)\n"
                                     "b: float32[2, 2] = aten.neg.default(self=%a)\n"
                                     "c: float32[2, 2] = aten.dropout.default(input=%b, p=0.5, train=true)\n"
                                     "output %c \"output\"\n"),
                            {});
  ASSERT_FALSE(module.ok());
  EXPECT_EQ(module.status().code(), StatusCode::kUnsupported);
  EXPECT_THAT(module.status().message(), HasSubstr("2 of 3 nodes"));
  EXPECT_THAT(module.status().message(), HasSubstr("a (aten.linalg_inv.default): there is no lowering"));
  EXPECT_THAT(module.status().message(), HasSubstr("c (aten.dropout.default): dropout in training"));
}

TEST(Lower, CallsWithFewerResultsThanTheirOperatorAreRefused) {
  for (const char* call : {"aten.sort.default(self=%x)", "aten.topk.default(self=%x, k=2)"}) {
    const auto module = lower(
        graph_of(std::string("input x: float32[2]\nfirst: float32[2] = ") + call + "\noutput %first \"output\"\n"), {});
    ASSERT_FALSE(module.ok()) << call;
    EXPECT_EQ(module.status().code(), StatusCode::kUnsupported) << call;
    EXPECT_THAT(module.status().message(), HasSubstr("fewer results")) << call;
  }
}

TEST(Lower, SizesThatAreMissingAreNamed) {
  const auto graph = graph_of("symbol s0 in 1..8\ninput x: float32[s0]\noutput %x \"output\"\n");
  const auto module = lower(graph, {});
  ASSERT_FALSE(module.ok());
  EXPECT_EQ(module.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(module.status().message(), HasSubstr("s0"));
}

TEST(Lower, WriteThroughExpandedViewIsRefused) {
  const auto module = lower(graph_of("input x: float32[1]\n"
                                     "clone: float32[1] = aten.clone.default(self=%x)\n"
                                     "e: float32[3]{strides=[0]} = aten.expand.default(self=%clone, size=[3])\n"
                                     "w: float32[3]{strides=[0]} = aten.add_.Tensor(self=%e, other=1)\n"
                                     "output %w \"output\"\n"),
                            {});
  ASSERT_FALSE(module.ok());
  EXPECT_THAT(module.status().message(), HasSubstr("expanded view"));
}

TEST(Lower, BrokenAssertionsAreRefusedAndTrueOnesVanish) {
  const std::string text =
      "symbol s0 in 1..8\ninput x: float32[s0]\n"
      "size: int(s0) = aten.sym_size.int(self=%x, dim=0)\n"
      "lt: bool() = _operator.lt(a=%size, b=4)\n"
      "() = aten._assert_scalar.default(self=%lt, assert_msg=\"too long\") name=\"assert\"\n"
      "output %x \"output\"\n";
  SymbolValues sizes;
  sizes.set("s0", 3);
  EXPECT_TRUE(lower(graph_of(text), sizes).ok());
  sizes.set("s0", 5);
  const auto module = lower(graph_of(text), sizes);
  ASSERT_FALSE(module.ok());
  EXPECT_THAT(module.status().message(), HasSubstr("too long"));
}

// Conditions of exported graphs are joined so.
TEST(Lower, SizesAreComputedWithBits) {
  for (const auto& [operation, of_three, of_six] :
       {std::tuple("and_", true, false), {"or_", true, true}, {"xor", false, true}}) {
    SCOPED_TRACE(operation);
    const std::string text = fmt::format(
        "symbol s0 in 1..8\ninput x: float32[s0]\n"
        "size: int(s0) = aten.sym_size.int(self=%x, dim=0)\n"
        "low: bool() = _operator.lt(a=%size, b=4)\n"
        "bit: int(s0 % 2) = _operator.mod(a=%size, b=2)\n"
        "odd: bool() = _operator.eq(a=%bit, b=1)\n"
        "even: bool() = _operator.eq(a=%bit, b=0)\n"
        "both: bool() = _operator.{}(a=%low, b={})\n"
        "() = aten._assert_scalar.default(self=%both, assert_msg=\"no\") name=\"assert\"\noutput %x \"output\"\n",
        operation, std::string_view(operation) == "or_" ? "%even" : "%odd");
    SymbolValues sizes;
    sizes.set("s0", 3);
    EXPECT_EQ(lower(graph_of(text), sizes).ok(), of_three);
    sizes.set("s0", std::string_view(operation) == "xor" ? 5 : 6);
    EXPECT_EQ(lower(graph_of(text), sizes).ok(), of_six);
  }
}

std::string scaled_product(const std::string& scale_b, const std::string& scale_result) {
  return "input x: float8_e4m3fn[5, 8]\ninput w: float8_e5m2[8, 3]\ninput a: float32[5, 1]\ninput s: float32" +
         scale_b +
         "\nmm: float8_e4m3fn[5, 3] = aten._scaled_mm.default(self=%x, mat2=%w, scale_a=%a, scale_b=%s, bias=none, "
         "scale_result=" +
         scale_result + ")\noutput %mm \"y\"\n";
}

TEST(Lower, ProductsOfFp8AreOfTheCodesAndThenScaledAndResultsSaturate) {
  const auto module = lower(graph_of(scaled_product("[]", "none")), {});
  ASSERT_TRUE(module.ok()) << module.status().message();
  EXPECT_THAT(module->text, HasSubstr("(tensor<5x8xf8E4M3FN>) -> tensor<5x8xbf16>"));
  EXPECT_THAT(module->text, HasSubstr("(tensor<8x3xf8E5M2>) -> tensor<8x3xbf16>"));
  EXPECT_THAT(module->text, HasSubstr("(tensor<5x8xbf16>, tensor<8x3xbf16>) -> tensor<5x3xf32>"));
  EXPECT_THAT(module->text, HasSubstr("(tensor<5x1xf32>) -> tensor<5x3xf32>"));
  EXPECT_THAT(module->text, HasSubstr("0x43E00000"));  // 448, the largest float8_e4m3fn
  EXPECT_THAT(module->text, HasSubstr("(tensor<5x3xf32>) -> tensor<5x3xf8E4M3FN>"));
}

TEST(Lower, OtherProductsOfFp8AreRefused) {
  EXPECT_THAT(lower(graph_of(scaled_product("[2, 3]", "none")), {}).status().message(),
              HasSubstr("its scales are neither one nor one for each row or column"));
  EXPECT_THAT(lower(graph_of(scaled_product("[]", "%s")), {}).status().message(), HasSubstr("its result has a scale"));
}

TEST(CheckLowering, AnswersForEveryNode) {
  const auto answers =
      check_lowering(graph_of("symbol s0 in 2..1024\n"
                              "input x: float32[s0, 2]\n"
                              "a: float32[s0, 2] = aten.linalg_inv.default(A=%x)\n"
                              "b: float32[s0, 2] = aten.neg.default(self=%a)\n"
                              "output %b \"output\"\n"));
  ASSERT_TRUE(answers.ok());
  ASSERT_EQ(answers->size(), 2U);
  EXPECT_FALSE((*answers)[0].supported);
  EXPECT_THAT((*answers)[0].reason, Not(::testing::IsEmpty()));
  EXPECT_TRUE((*answers)[1].supported) << (*answers)[1].reason;
}

// Nobody knows it before the run, so both nodes are refused; the size of the input is assumed.
TEST(CheckLowering, NumbersOutOfTensorsAreRefused) {
  const auto answers = check_lowering(
      graph_of("symbol s0 in 2..1024\nsymbol u0 in 0..1024\n"
               "input x: float32[s0]\ninput n: int64[]\n"
               "count: int(u0) = aten.item.default(self=%n)\n"
               "a: float32[s0] = aten.mul.Scalar(self=%x, other=%count)\n"
               "b: float32[u0] = aten.full.default(size=[%count], fill_value=1.0, dtype=dtype(float32))\n"
               "c: float32[s0] = aten.neg.default(self=%x)\n"
               "output %a \"a\"\noutput %b \"b\"\noutput %c \"c\"\n"));
  ASSERT_TRUE(answers.ok());
  ASSERT_EQ(answers->size(), 4U);
  EXPECT_FALSE((*answers)[0].supported);
  EXPECT_THAT((*answers)[0].reason, HasSubstr("reads a number out of a tensor"));
  EXPECT_FALSE((*answers)[1].supported);
  EXPECT_THAT((*answers)[1].reason, HasSubstr("%count is not known before the run"));
  EXPECT_FALSE((*answers)[2].supported);
  EXPECT_TRUE((*answers)[3].supported) << (*answers)[3].reason;
}

TEST(CheckLowering, GivenSizesDecideAndOthersAreTriedUntilTheModelFits) {
  const std::string head =
      "symbol s0 in 2..1024\ninput x: float32[s0]\nsize: int(s0) = aten.sym_size.int(self=%x, dim=0)\n";
  for (const std::int64_t part : {2, 3, 7, 11, 13}) {
    const ir::Graph graph =
        graph_of(head + fmt::format("rows: int(s0 // {0}) = _operator.floordiv(a=%size, b={0})\n"
                                    "v: float32[s0 // {0}, {0}] = aten.view.default(self=%x, size=[%rows, {0}])\n"
                                    "output %v \"output\"\n",
                                    part));
    const auto free = check_lowering(graph);
    ASSERT_TRUE(free.ok());
    EXPECT_TRUE(free->back().supported) << part << ": " << free->back().reason;
    SymbolValues sizes;
    sizes.set("s0", 10 * part);
    EXPECT_TRUE(check_lowering(graph, sizes)->back().supported) << part;
    sizes.set("s0", 10 * part + 1);
    EXPECT_FALSE(check_lowering(graph, sizes)->back().supported) << part;
  }
}

TEST(CheckLowering, ContentsThatMakeNoSenseAreAnswersNotCrashes) {
  // A rank that the rule does not expect, and numbers far out of range.
  for (const std::string node :
       {"aten.slice.Tensor(self=%x, dim=0, start=1)", "aten.select.int(self=%x, dim=7, index=0)",
        "aten.transpose.int(self=%x, dim0=3, dim1=-9)", "aten.linear.default(input=%x, weight=%x)",
        "aten.conv2d.default(input=%x, weight=%x)",
        "aten.max_pool2d.default(self=%x, kernel_size=[9223372036854775807])",
        "aten.layer_norm.default(input=%x, normalized_shape=[4, 4])", "aten.cat.default(tensors=[%x, %x], dim=2)",
        "aten.scaled_dot_product_attention.default(query=%x, key=%x, value=%x)", "aten.add.Tensor(self=%x)"}) {
    SCOPED_TRACE(node);
    const auto answers = check_lowering(graph_of("input x: float32[]\nr: float32[] = " + node + "\noutput %r \"o\"\n"));
    ASSERT_TRUE(answers.ok());
    EXPECT_FALSE((*answers)[0].supported);
  }
}

TEST(Rules, EveryTargetStandsOnceAndOwnOperatorsAreKnown) {
  std::vector<std::string_view> targets;
  for (const std::span<const Rule> family : rule_families()) {
    for (const Rule& rule : family) targets.push_back(rule.target);
  }
  std::sort(targets.begin(), targets.end());
  EXPECT_EQ(std::adjacent_find(targets.begin(), targets.end()), targets.end());
  for (const Rule& rule : own_rules()) EXPECT_NE(ir::find_own_operator(rule.target), nullptr) << rule.target;
}

}  // namespace
}  // namespace kpt::xla
