#include "passes/library_form.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/text.h"
#include "ir/verifier.h"
#include "passes/pass_testing.h"

namespace kpt {
namespace {

using testing::HasSubstr;

struct Model {
  ir::Graph graph;
  Weights weights;
};

Model read(const std::string& text) {
  Model model;
  auto graph = ir::read_graph("kpt_graph 1\n" + text);
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  model.graph = std::move(graph).value();
  EXPECT_TRUE(ir::verify(model.graph).ok()) << ir::verify(model.graph).message();
  model.weights = pass_testing::draw_weights(model.graph, 3);
  return model;
}

std::string isolate_text(const Model& model, std::size_t node) {
  const MemoryFacts facts(model.graph, model.weights);
  const ConstantWeights constants(model.graph, model.weights, facts);
  const NodeModel alone = isolate_node(model.graph, constants, model.graph.nodes[node]);
  EXPECT_TRUE(ir::verify(alone.graph).ok()) << ir::verify(alone.graph).message();
  return ir::print_graph(alone.graph);
}

constexpr const char* kTwoProducts = R"(symbol s0 in 1..8
parameter w: float32[6, 6]
parameter v: float32[6, 6]
parameter b: float32[6]
input x: float32[s0, 6]
one: float32[s0, 6] = kpt.linear.default(input=%x, weight=%w, bias=%b, residual=none, activation="gelu_tanh")
two: float32[s0, 6] = kpt.linear.default(input=%one, weight=%v, bias=%b, residual=none, activation="gelu_tanh")
three: float32[s0, 6] = kpt.linear.default(input=%two, weight=%v, bias=%b, residual=%one, activation="relu6")
output %three "y"
)";

TEST(LibraryForm, NodesThatRunAlikeGiveTheSameText) {
  const Model model = read(kTwoProducts);
  EXPECT_EQ(isolate_text(model, 0), isolate_text(model, 1));
  EXPECT_NE(isolate_text(model, 1), isolate_text(model, 2));
  EXPECT_THAT(isolate_text(model, 2), HasSubstr("symbol s0"));
  EXPECT_THAT(isolate_text(model, 2), HasSubstr("input a_residual: float32[s0, 6]")) << "named after its argument";
}

TEST(LibraryForm, SizesBecomeNumbersOrTheSymbolIsNamed) {
  Model model = read(kTwoProducts);
  EXPECT_THAT(fix_sizes(model.graph, {}).message(), HasSubstr("s0"));
  model = read(kTwoProducts);
  ir::Bindings sizes;
  sizes.set("s0", 5);
  ASSERT_TRUE(fix_sizes(model.graph, sizes).ok());
  EXPECT_TRUE(ir::verify(model.graph).ok());
  EXPECT_THAT(ir::print_graph(model.graph), HasSubstr("input x: float32[5, 6]"));
}

TEST(LibraryForm, OnlyNamedNodesAreReplaced) {
  Model model = read(kTwoProducts);
  const PassStats stats = use_library_forms(model.graph, model.weights, {"three", "nobody"});
  EXPECT_EQ(stats.changes, 1U);
  EXPECT_TRUE(ir::verify(model.graph).ok()) << ir::verify(model.graph).message();
  const std::string text = ir::print_graph(model.graph);
  EXPECT_THAT(text, HasSubstr("aten.linear.default(input=%two, weight=%v, bias=%b)"));
  EXPECT_THAT(text, HasSubstr("aten.add.Tensor(self=%three_linear, other=%one)"));
  EXPECT_THAT(text,
              HasSubstr("three: float32[s0, 6] = aten.hardtanh.default(self=%three_add, min_val=0.0, max_val=6.0)"));
  EXPECT_THAT(text, HasSubstr("one: float32[s0, 6] = kpt.linear.default"));
}

TEST(LibraryForm, ProductsOfBfloat16StandBetweenCasts) {
  Model model = read(R"(parameter w: bfloat16[6, 6]
parameter b: float32[6]
input x: float32[2, 6]
y: float32[2, 6] = kpt.linear.default(input=%x, weight=%w, bias=%b, residual=%x, activation="gelu")
output %y "y"
)");
  EXPECT_EQ(use_library_forms(model.graph, model.weights, {"y"}).changes, 1U);
  EXPECT_TRUE(ir::verify(model.graph).ok()) << ir::verify(model.graph).message();
  const std::string text = ir::print_graph(model.graph);
  EXPECT_THAT(text, HasSubstr("y_to: bfloat16[2, 6] = aten.to.dtype(self=%x, dtype=dtype(bfloat16)"));
  EXPECT_THAT(text, HasSubstr("y_linear: bfloat16[2, 6] = aten.linear.default(input=%y_to, weight=%w, bias=%y_to_1)"));
  EXPECT_THAT(text, HasSubstr("float32[2, 6] = aten.to.dtype(self=%y_linear, dtype=dtype(float32))"));
  EXPECT_THAT(text, HasSubstr("y: float32[2, 6] = aten.gelu.default("));
}

TEST(LibraryForm, WhatAtenDoesNotComputeStaysOurs) {
  Model model = read(R"(parameter w: bfloat16[6, 6]
input x: float32[2, 6]
input r: bfloat16[2, 6]
input q: float32[1, 2, 3, 4]
input m: bool[3, 3]
mixed: float32[2, 6] = kpt.linear.default(input=%x, weight=%w, bias=none, residual=%r, activation="none")
masked: float32[1, 3, 2, 4] = kpt.attention.default(query=%q, key=%q, value=%q, mask=%m, scale=0.5, causal=false)
output %mixed "y"
output %masked "z"
)");
  const PassStats stats = use_library_forms(model.graph, model.weights, {"mixed", "masked"});
  EXPECT_EQ(stats.changes, 0U);
  ASSERT_EQ(stats.details.size(), 2U);
  EXPECT_THAT(stats.details[0], HasSubstr("mixes no types"));
  EXPECT_THAT(stats.details[1], HasSubstr("look nowhere"));
}

}  // namespace
}  // namespace kpt
