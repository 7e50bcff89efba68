#include "ir/figures.h"

#include <gtest/gtest.h>

#include "ir/text.h"

namespace kpt::ir {
namespace {

// A product in one branch and a sine in the other; a loop whose body has two products.
constexpr const char* kNested = R"(kpt_graph 1
input x: float32[4, 4]
input yes: bool[]
cond: float32[4, 4] = higher_order.cond(%yes, graph "true_graph_0" {
  input a: float32[4, 4]
  sin: float32[4, 4] = aten.sin.default(self=%a)
  output %sin
}, graph "false_graph_0" {
  input a: float32[4, 4]
  mm: float32[4, 4] = aten.mm.default(self=%a, mat2=%a)
  output %mm
}, [%x])
loop: float32[4, 4] = higher_order.while_loop(graph "cond_graph_0" {
  input a: float32[4, 4]
  sum: float32[] = aten.sum.default(self=%a)
  lt: bool[] = aten.lt.Scalar(self=%sum, other=9)
  output %lt
}, graph "body_graph_0" {
  input a: float32[4, 4]
  mm: float32[4, 4] = aten.mm.default(self=%a, mat2=%a)
  mm_1: float32[4, 4] = aten.mm.default(self=%mm, mat2=%a)
  output %mm_1
}, [%cond], [])
output %loop "out"
)";

TEST(Figures, SubgraphsCountByTheirGreaterBranchAndForOneTurn) {
  const auto graph = read_graph(kNested);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  const Figures figures = count_figures(*graph, {});
  EXPECT_EQ(figures.nodes, 8U);
  EXPECT_TRUE(figures.has_loops);
  EXPECT_EQ(figures.histogram.at("aten.mm.default"), 3U);
  EXPECT_EQ(figures.histogram.at("aten.sin.default"), 1U);
  EXPECT_EQ(figures.classes.at("control").nodes, 2U);
  EXPECT_EQ(figures.classes.at("control").flops, 0);
  EXPECT_EQ(figures.classes.at("matmul").nodes, 3U);
  EXPECT_EQ(figures.classes.at("matmul").flops, 3.0 * 2 * 64);
  EXPECT_EQ(figures.classes.at("pointwise").nodes, 2U);  // the smaller branch is left out
  EXPECT_EQ(figures.flops, 3.0 * 2 * 64 + 2);
}

TEST(Figures, AScaledProductCountsAsAProduct) {
  const auto graph = read_graph(R"(kpt_graph 1
input a: float8_e4m3fn[8, 16]
input b: float8_e4m3fn[16, 32]
input s: float32[]
mm: float32[8, 32] = aten._scaled_mm.default(self=%a, mat2=%b, scale_a=%s, scale_b=%s, out_dtype=dtype(float32))
output %mm "out"
)");
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  const Figures figures = count_figures(*graph, {});
  EXPECT_EQ(figures.classes.at("matmul").nodes, 1U);
  EXPECT_EQ(figures.flops, 2.0 * 8 * 16 * 32);
}

double flops_of(const std::string& inputs_and_node) {
  const auto graph = read_graph("kpt_graph 1\n" + inputs_and_node + "output %y \"out\"\n");
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  return count_figures(*graph, {}).classes.at("convolution").flops;
}

// Three channels become eight, with filters of 5x5 on 10x10 places: both ways the same products.
TEST(Figures, ATransposedConvolutionCountsTheElementsOfItsInput) {
  const double forward = flops_of(R"(input x: float32[2, 3, 14, 14]
input w: float32[8, 3, 5, 5]
y: float32[2, 8, 10, 10] = aten.conv2d.default(input=%x, weight=%w)
)");
  EXPECT_EQ(forward, 2.0 * (2 * 10 * 10) * (8 * 3 * 5 * 5));
  EXPECT_EQ(flops_of(R"(input x: float32[2, 8, 10, 10]
input w: float32[8, 3, 5, 5]
y: float32[2, 3, 14, 14] = aten.conv_transpose2d.input(input=%x, weight=%w)
)"),
            forward);
  for (const bool transposed : {false, true}) {
    const std::string word = transposed ? "true" : "false";
    const std::string given = transposed ? "input x: float32[2, 8, 10, 10]\n" : "input x: float32[2, 3, 14, 14]\n";
    const std::string made = transposed ? "y: float32[2, 3, 14, 14]" : "y: float32[2, 8, 10, 10]";
    const std::string first = given + "input w: float32[8, 3, 5, 5]\n" + made + " = aten.convolution.default(";
    EXPECT_EQ(flops_of(first +
                       "input=%x, weight=%w, bias=none, stride=[1, 1], padding=[0, 0], dilation=[1, 1], "
                       "transposed=" +
                       word + ", output_padding=[0, 0], groups=1)\n"),
              forward);
    EXPECT_EQ(flops_of(first + "%x, %w, none, [1, 1], [0, 0], [1, 1], " + word + ", [0, 0], 1)\n"), forward);
  }
}

// Groups: the weight of a transposed one holds the channels of one group on its second axis.
TEST(Figures, GroupsShareTheProductsOfATransposedConvolution) {
  EXPECT_EQ(flops_of(R"(input x: float32[1, 8, 7]
input w: float32[8, 3, 4]
y: float32[1, 6, 10] = aten.conv_transpose1d.default(input=%x, weight=%w, bias=none, stride=[1], padding=[0], output_padding=[0], groups=2)
)"),
            2.0 * (8 * 7) * (3 * 4));
}

}  // namespace
}  // namespace kpt::ir
