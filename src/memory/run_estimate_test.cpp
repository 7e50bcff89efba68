#include "memory/run_estimate.h"

#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "ir/text.h"

namespace kpt {
namespace {

ir::Graph read(const std::string& body) {
  auto graph = ir::read_graph("kpt_graph 1\n" + body);
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  return std::move(graph).value();
}

std::vector<std::uint32_t> apart(const ir::Graph& graph) {
  std::vector<std::uint32_t> roots(graph.values.size());
  std::iota(roots.begin(), roots.end(), 0U);
  return roots;
}

std::uint32_t find(const ir::Graph& graph, const std::string& name) {
  for (std::uint32_t index = 0; index < graph.values.size(); ++index) {
    if (graph.values[index].name == name) return index;
  }
  ADD_FAILURE() << name;
  return 0;
}

ir::Graph make_chain() {
  return read(R"(symbol s0 in 1..4096
input x: float32[s0, 256]
a: float32[s0, 256] = aten.relu.default(self=%x)
b: float32[s0, 256] = aten.relu.default(self=%a)
c: float32[s0, 256] = aten.relu.default(self=%b)
output %c "out"
)");
}

TEST(RunEstimate, AChainHoldsTwoResultsAtOnce) {
  const ir::Graph graph = make_chain();
  ir::Bindings sizes;
  sizes.set("s0", 64);
  const RunEstimate estimate = estimate_run(graph, sizes, apart(graph));
  EXPECT_EQ(estimate.bytes, 2U * 64 * 256 * 4);
  EXPECT_EQ(estimate.unknown, 0U);
  sizes.set("s0", 128);
  EXPECT_EQ(estimate_run(graph, sizes, apart(graph)).bytes, 2U * 128 * 256 * 4);
}

TEST(RunEstimate, WhatIsUsedLateOrHandedOutLivesOn) {
  const ir::Graph graph = read(R"(input x: float32[1024]
a: float32[1024] = aten.relu.default(self=%x)
b: float32[1024] = aten.relu.default(self=%a)
c: float32[1024] = aten.relu.default(self=%b)
d: float32[1024] = aten.add.Tensor(self=%c, other=%a)
output %b "b"
output %d "d"
)");
  // At d: a, b (an output), c and d.
  EXPECT_EQ(estimate_run(graph, {}, apart(graph)).bytes, 4U * 4096);
}

TEST(RunEstimate, ViewsTakeNothingButKeepWhatTheyShow) {
  const ir::Graph graph = read(R"(input x: float32[1024]
a: float32[1024] = aten.relu.default(self=%x)
v: float32[32, 32] = aten.view.default(self=%a, size=[32, 32])
b: float32[1024] = aten.relu.default(self=%x)
c: float32[32, 32] = aten.relu.default(self=%v)
w: float32[8, 1024] = aten.expand.default(self=%x, size=[8, 1024])
output %c "out"
)");
  std::vector<std::uint32_t> roots = apart(graph);
  roots[find(graph, "v")] = find(graph, "a");
  roots[find(graph, "w")] = find(graph, "x");
  // At c: a through its view, and c. b is gone; x is the caller's, whatever shows it.
  EXPECT_EQ(estimate_run(graph, {}, roots).bytes, 2U * 4096);
}

TEST(RunEstimate, SizesThatNobodyKnowsAreNotCounted) {
  const ir::Graph graph = make_chain();
  const RunEstimate estimate = estimate_run(graph, {}, apart(graph));
  EXPECT_EQ(estimate.bytes, 0U);
  EXPECT_EQ(estimate.unknown, 3U);
}

TEST(RunEstimate, BlocksAreRoundedAsAllocatorsDo) {
  const ir::Graph graph = read(R"(input x: float32[3]
a: float32[3] = aten.relu.default(self=%x)
output %a "out"
)");
  EXPECT_EQ(estimate_run(graph, {}, apart(graph)).bytes, 512U);
}

TEST(RunEstimate, ExtentsOfInputsAreTheSymbols) {
  const ir::Graph graph = make_chain();
  const Tensor input = Tensor::empty(DType::kFloat32, Dims{7, 256}).value();
  const ir::Bindings sizes = bind_extents(graph, std::span(&input, 1));
  EXPECT_EQ(sizes.find("s0"), 7);
  EXPECT_TRUE(bind_extents(graph, {}).entries().empty());
}

}  // namespace
}  // namespace kpt
