#include "benchmark/sweep.h"

#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kpt {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ir::GraphInput add_input(ir::Graph& graph, const std::string& name, std::vector<ir::Expr> dims) {
  ir::Value value;
  value.name = name;
  value.tensor.dims = std::move(dims);
  return {ir::InputKind::kUser, graph.add_value(std::move(value)), name, true, {}};
}

// ids [s0, s1], mask [s0, s1], table [8].
ir::Graph make_graph() {
  ir::Graph graph;
  graph.symbols = {{"s0", 1, 64}, {"s1", 2, std::nullopt}};
  const ir::Expr batch = ir::Expr::symbol("s0");
  const ir::Expr length = ir::Expr::symbol("s1");
  graph.inputs.push_back(add_input(graph, "ids", {batch, length}));
  graph.inputs.push_back(add_input(graph, "mask", {batch, length}));
  graph.inputs.push_back(add_input(graph, "table", {ir::Expr(8)}));
  return graph;
}

TEST(Sweep, ListsOfSizesAreReadOrRefusedWithTheirText) {
  EXPECT_THAT(parse_values("1, 2,64").value(), ElementsAre(1, 2, 64));
  for (const char* bad : {"", "0", "-1", "1,,2", "x", "1,1", "99999999999999999999", "1.5"}) {
    EXPECT_EQ(parse_values(bad).status().code(), StatusCode::kInvalidArgument) << bad;
  }
  const SweepAxis axis = parse_sweep("s1=32,128").value();
  EXPECT_EQ(axis.symbol, "s1");
  EXPECT_THAT(axis.values, ElementsAre(32, 128));
  for (const char* bad : {"s1", "=1", "s1=", ""}) EXPECT_FALSE(parse_sweep(bad).ok()) << bad;
}

TEST(Sweep, BatchIsTheOneSymbolInFront) {
  ir::Graph graph = make_graph();
  EXPECT_EQ(find_batch_symbol(graph).value(), "s0");
  graph.inputs.push_back(add_input(graph, "other", {ir::Expr::symbol("s1")}));
  EXPECT_THAT(find_batch_symbol(graph).status().message(), HasSubstr("s0, s1"));
  ir::Graph fixed;
  fixed.inputs.push_back(add_input(fixed, "x", {ir::Expr(4)}));
  EXPECT_THAT(find_batch_symbol(fixed).status().message(), HasSubstr("fixed"));
}

TEST(Sweep, PointsAreAllCombinationsInOrder) {
  const ir::Graph graph = make_graph();
  EXPECT_EQ(plan_sweep(graph, {}, {}).value().size(), 1U);
  const std::vector<SweepAxis> axes = {{"s0", {1, 4}}, {"s1", {32, 64, 128}}};
  const auto points = plan_sweep(graph, {}, axes).value();
  ASSERT_EQ(points.size(), 6U);
  EXPECT_EQ(points[1], (Sizes{{"s0", 1}, {"s1", 64}}));
  EXPECT_EQ(points[3], (Sizes{{"s0", 4}, {"s1", 32}}));
}

TEST(Sweep, WrongSymbolsAndSizesAreNamed) {
  const ir::Graph graph = make_graph();
  const auto message = [&](const Sizes& fixed, std::vector<SweepAxis> axes) {
    return plan_sweep(graph, fixed, axes).status().message();
  };
  EXPECT_THAT(message({{"s9", 1}}, {}), HasSubstr("no symbol 's9'; it has s0, s1"));
  EXPECT_THAT(message({}, {{"s0", {1, 65}}}), HasSubstr("size 65 of symbol 's0' is outside 1 to 64"));
  EXPECT_THAT(message({{"s0", 1}}, {{"s0", {2}}}), HasSubstr("given twice"));
  std::vector<std::int64_t> many(300);
  for (std::size_t index = 0; index < many.size(); ++index) many[index] = static_cast<std::int64_t>(index + 2);
  EXPECT_THAT(message({}, {{"s1", many}}), HasSubstr("more than 256"));
}

TEST(Sweep, SizesReadWithTheBatchFirst) {
  EXPECT_EQ(describe_sizes({{"a1", 128}, {"s0", 4}}, "s0"), "batch 4, a1 128");
  EXPECT_EQ(describe_sizes({{"s0", 4}}, ""), "s0 4");
  EXPECT_EQ(describe_sizes({}, "s0"), "");
}

TEST(Sweep, ItemsAreTheFirstExtentOfTheFirstInputThatHasOne) {
  const Tensor scalar = Tensor::empty(DType::kFloat32, Dims{}).value();
  const Tensor matrix = Tensor::empty(DType::kFloat32, Dims{6, 2}).value();
  EXPECT_EQ(count_items(std::vector<NamedTensor>{{"a", scalar}, {"b", matrix}}), 6);
  EXPECT_EQ(count_items(std::vector<NamedTensor>{{"a", scalar}}), 1);
  EXPECT_EQ(count_items({}), 1);
}

}  // namespace
}  // namespace kpt
