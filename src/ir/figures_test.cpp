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

}  // namespace
}  // namespace kpt::ir
