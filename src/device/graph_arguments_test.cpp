#include "device/graph_arguments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/text.h"

namespace kpt {
namespace {

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

ir::Graph read(const std::string& inputs) {
  return ir::read_graph(
             "kpt_graph 1\nsymbol s0 in 1..100\nsymbol s1 in 1..100\nsymbol u0 in 0..100\n" + inputs +
             "y: float32[] = aten.full.default(size=[], fill_value=1.0, dtype=dtype(float32))\noutput %y \"y\"\n")
      .value();
}

Tensor make(const Dims& dims) { return Tensor::empty(DType::kFloat32, dims).value(); }

TEST(ShownSymbols, AreThoseThatExtentsOfInputsGive) {
  EXPECT_THAT(find_shown_symbols(read("input a: float32[s0, 3]\ninput b: float32[2*s1 + 1]\n")),
              UnorderedElementsAre("s0", "s1"));
  // The sum shows s1 once s0 is known, wherever that stands.
  EXPECT_THAT(find_shown_symbols(read("input a: float32[s0 + s1]\ninput b: float32[3*s0]\n")),
              UnorderedElementsAre("s0", "s1"));
  EXPECT_THAT(find_shown_symbols(read("input a: float32[s0 + s1]\ninput b: float32[s1 // 2, s1*s1]\n")),
              UnorderedElementsAre());
}

TEST(BindSymbols, SolvesExtentsThatAreNoSymbols) {
  const ir::Graph graph = read("input a: float32[s0 + s1, 2]\ninput b: float32[8*s0 - 1]\n");
  ir::Bindings sizes;
  const std::vector<Tensor> inputs = {make({5, 2}), make({23})};
  const Status solved = bind_symbols(graph, inputs, sizes);
  ASSERT_TRUE(solved.ok()) << solved.message();
  EXPECT_EQ(sizes.find("s0"), 3);
  EXPECT_EQ(sizes.find("s1"), 2);
  ir::Bindings none;
  const Status status = bind_symbols(graph, std::vector<Tensor>{make({5, 2}), make({24})}, none);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("size 0 of input 1: 24 is not"));
}

}  // namespace
}  // namespace kpt
