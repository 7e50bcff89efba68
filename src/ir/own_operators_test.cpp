#include "ir/own_operators.h"

#include <functional>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/figures.h"
#include "ir/text.h"
#include "ir/verifier.h"

namespace kpt::ir {
namespace {

using ::testing::HasSubstr;

TEST(OwnOperators, TargetsAndArgumentsAreDistinct) {
  std::set<std::string_view> targets;
  for (const OwnOperator& op : own_operators()) {
    EXPECT_TRUE(op.target.starts_with(kOwnPrefix)) << op.target;
    EXPECT_TRUE(targets.insert(op.target).second) << op.target;
    EXPECT_EQ(find_own_operator(op.target), &op);
    EXPECT_EQ(std::set<std::string_view>(op.arguments.begin(), op.arguments.end()).size(), op.arguments.size());
  }
  EXPECT_EQ(find_own_operator("kpt.linear"), nullptr);
  EXPECT_EQ(find_own_operator("aten.linear.default"), nullptr);
}

TEST(OwnOperators, ActivationsHaveNamesThatReadBack) {
  for (unsigned char index = 0; index < 10; ++index) {
    const auto activation = static_cast<Activation>(index);
    EXPECT_EQ(find_activation(activation_name(activation)), activation);
  }
  EXPECT_EQ(find_activation("softmax"), std::nullopt);
}

constexpr const char* kGraph = R"(kpt_graph 1
values w, x, linear, normed, sum, attention
parameter w: float32[8, 4] "w"
input x: float32[2, 3, 5, 4]
linear: float32[2, 3, 5, 8] = kpt.linear.default(weight=%w, input=%x, bias=none, residual=none, activation="gelu")
normed: float32[2, 3, 5, 8], sum: float32[2, 3, 5, 8] = kpt.add_norm.default(input=%linear, residual=none, weight=none, bias=none, epsilon=1e-05, kind="rms")
attention: float32[2, 5, 3, 8] = kpt.attention.default(query=%normed, key=%sum, value=%sum, mask=none, scale=1.0, causal=false)
output %attention "out"
)";

TEST(OwnOperators, WorkIsCountedByTheNamesOfArguments) {
  const Graph graph = read_graph(kGraph).value();
  ASSERT_TRUE(verify(graph).ok()) << verify(graph).message();
  const Figures figures = count_figures(graph, {});
  EXPECT_EQ(figures.classes.at("matmul").flops, 2.0 * 240 * 4);
  EXPECT_EQ(figures.classes.at("pointwise").flops, 240);
  EXPECT_EQ(figures.classes.at("attention").flops, 4.0 * 240 * 5);
}

TEST(OwnOperators, BytesAreThoseOfArgumentsAndResultsOnce) {
  const Graph graph = read_graph(kGraph).value();
  const NodeFigures linear = count_node(graph, graph.nodes[0], {});
  EXPECT_EQ(linear.kind, "matmul");
  EXPECT_EQ(linear.flops, 2.0 * 240 * 4);
  EXPECT_EQ(linear.bytes, 4.0 * (8 * 4 + 120 + 240));
  EXPECT_EQ(count_node(graph, graph.nodes[1], {}).bytes, 4.0 * 3 * 240);  // one argument, two results
  EXPECT_EQ(count_node(graph, graph.nodes[2], {}).bytes, 4.0 * 3 * 240);  // key and value are one tensor
}

TEST(OwnOperators, OfATableOnlyTheRowsCountAndUnknownSizesGiveNothing) {
  const Graph graph = read_graph(R"(kpt_graph 1
symbol s0 in 1..64
values w, ids, row, flat
parameter w: float32[1000, 8] "w"
input ids: int64[s0]
row: float32[s0, 8] = aten.embedding.default(weight=%w, indices=%ids)
flat: float32[8*s0] = aten.view.default(self=%row, size=[-1])
output %flat "out"
)")
                          .value();
  Bindings sizes;
  sizes.set("s0", 5);
  EXPECT_EQ(count_node(graph, graph.nodes[0], sizes).bytes, 5.0 * 8 + 2 * 5.0 * 8 * 4);
  EXPECT_EQ(count_node(graph, graph.nodes[1], sizes).bytes, 0.0);
  EXPECT_EQ(count_node(graph, graph.nodes[0], {}).bytes, std::nullopt);
  EXPECT_EQ(count_node(graph, graph.nodes[0], {}).flops, std::nullopt);
}

std::string refusal(const std::function<void(Node&)>& spoil) {
  Graph graph = read_graph(kGraph).value();
  spoil(graph.nodes[0]);
  const Status status = verify(graph);
  EXPECT_EQ(status.code(), StatusCode::kCorruptData);
  return status.message();
}

TEST(OwnOperators, VerifierHoldsNodesToTheContract) {
  EXPECT_THAT(refusal([](Node& node) { node.target = "kpt.lineal.default"; }), HasSubstr("does not exist"));
  EXPECT_THAT(refusal([](Node& node) { node.arguments.pop_back(); }), HasSubstr("has 4 arguments, its operator 5"));
  EXPECT_THAT(refusal([](Node& node) { node.arguments[0].name = "weights"; }),
              HasSubstr("has the argument 'weights', which its operator lacks"));
  EXPECT_THAT(refusal([](Node& node) { node.arguments[0].name = ""; }), HasSubstr("which its operator lacks"));
  EXPECT_THAT(refusal([](Node& node) { node.arguments[0].name = "input"; }), HasSubstr("'input' twice"));
  EXPECT_THAT(refusal([](Node& node) { node.outputs.push_back({false, {kNoValue}}); }),
              HasSubstr("has 2 results, its operator 1"));
}

}  // namespace
}  // namespace kpt::ir
