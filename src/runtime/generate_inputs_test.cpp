#include "runtime/generate_inputs.h"

#include <cmath>
#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/test_inputs.h"

namespace kpt {
namespace {

ir::Graph make_graph() {
  ir::Graph graph;
  const ir::Expr batch = ir::Expr::symbol("s0");
  const ir::ValueId ids = add_input(graph, "ids", DType::kInt64, {batch, 50});
  add_input(graph, "attention_mask", DType::kInt64, {batch, 50});
  add_input(graph, "x", DType::kFloat32, {batch, 300});
  add_input(graph, "h", DType::kFloat16, {batch, 300});
  add_input(graph, "b", DType::kBFloat16, {batch, 300});
  ir::Value table;
  table.name = "table";
  table.tensor.dims = {7, 4};
  const ir::ValueId table_id = graph.add_value(std::move(table));
  ir::Node node;
  node.target = "aten.embedding.default";
  node.arguments = {{"weight", {table_id}}, {"indices", {ids}}};
  graph.nodes.push_back(node);
  graph.symbols = {{"s0", 1, 8}};
  return graph;
}

bool same(const Tensor& a, const Tensor& b) {
  return a.bytes() == b.bytes() && std::memcmp(a.data(), b.data(), a.bytes()) == 0;
}

TEST(GenerateInputs, SameSeedSameInputsOtherSeedOthers) {
  const ir::Graph graph = make_graph();
  const auto first = *generate_inputs(graph, {7, {}, {}});
  const auto again = *generate_inputs(graph, {7, {}, {}});
  const auto other = *generate_inputs(graph, {8, {}, {}});
  ASSERT_EQ(first.size(), 5U);
  for (std::size_t index = 0; index < first.size(); ++index)
    EXPECT_TRUE(same(first[index].tensor, again[index].tensor));
  EXPECT_FALSE(same(first[2].tensor, other[2].tensor));
}

TEST(GenerateInputs, ValuesAreOfUse) {
  const auto inputs = *generate_inputs(make_graph(), {1, {{"s0", 8}}, {}});
  for (const std::int64_t id : inputs[0].tensor.elements<std::int64_t>()) {
    EXPECT_GE(id, 0);
    EXPECT_LT(id, 7) << "beyond the embedding";
  }
  const auto mask = inputs[1].tensor.elements<std::int64_t>();
  bool hides = false;
  for (std::size_t index = 0; index < mask.size(); ++index) {
    if (index < 50 || index % 50 == 0) {
      EXPECT_EQ(mask[index], 1) << "the first row and the first of every row";
    } else {
      EXPECT_LE(mask[index], mask[index - 1]) << "ones come first";
    }
    hides = hides || mask[index] == 0;
  }
  EXPECT_TRUE(hides);
  double sum = 0;
  double squares = 0;
  const auto x = inputs[2].tensor.elements<float>();
  for (const float value : x) {
    sum += value;
    squares += double{value} * value;
  }
  const auto count = static_cast<double>(x.size());
  EXPECT_NEAR(sum / count, 0, 5 / std::sqrt(count));
  EXPECT_NEAR(squares / count, 1, 0.2);
}

TEST(GenerateInputs, SizesAreCheckedAndDefaultToTheLeastFromTwoOn) {
  const ir::Graph graph = make_graph();
  EXPECT_EQ((*generate_inputs(graph, {}))[0].tensor.dims(), (Dims{2, 50}));
  EXPECT_EQ((*generate_inputs(graph, {0, {{"s0", 1}}, {}}))[0].tensor.dims(), (Dims{1, 50}));
  EXPECT_THAT(generate_inputs(graph, {0, {{"s0", 9}}, {}}).status().message(), testing::HasSubstr("outside 1 to 8"));
  EXPECT_THAT(generate_inputs(graph, {0, {{"s1", 9}}, {}}).status().message(), testing::HasSubstr("no symbol 's1'"));
}

}  // namespace
}  // namespace kpt
