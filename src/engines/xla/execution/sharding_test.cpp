#include "engines/xla/execution/sharding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engines/xla/execution/module_attributes.h"
#include "ir/text.h"

namespace kpt {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Two layers with an activation between them, as in a transformer's feed-forward part, and one behind.
constexpr const char* kLayers = R"(kpt_graph 1
parameter w1: float32[8, 6] "w1"
parameter b1: float32[8] "b1"
parameter w2: float32[6, 8] "w2"
parameter b2: float32[6] "b2"
parameter w3: float32[6, 12] "w3"
input x: float32[4, 6]
h: float32[4, 8] = aten.linear.default(input=%x, weight=%w1, bias=%b1)
a: float32[4, 8] = aten.relu.default(self=%h)
y: float32[4, 6] = aten.linear.default(input=%a, weight=%w2, bias=%b2)
r: float32[4, 6] = aten.add.Tensor(self=%y, other=%x)
z: float32[4, 12] = aten.mm.default(self=%r, mat2=%w3)
output %z "z"
)";

xla::LoweredModule lowered(const ir::Graph& graph) { return xla::lower(graph, {}).value(); }

TEST(Sharding, ProductsAreCutInPairs) {
  const ir::Graph graph = ir::read_graph(kLayers).value();
  const ShardPlan plan = ShardPlan::make(graph, 4, Sharding::kWeights).value();
  EXPECT_EQ(plan.weight(0), Cut(0));  // outputs of the first
  EXPECT_EQ(plan.weight(1), Cut(0));  // and their bias
  EXPECT_EQ(plan.weight(2), Cut(1));  // inputs of the second
  EXPECT_EQ(plan.weight(3), Cut());   // added once, to the sum
  EXPECT_EQ(plan.weight(4), Cut(1));  // outputs again; mm has them in the second axis
  const ModuleCuts cuts = plan.cut(graph, lowered(graph)).value();
  EXPECT_THAT(cuts.arguments, ElementsAre(Cut(0), Cut(0), Cut(1), Cut(), Cut(1), Cut()));
  EXPECT_THAT(cuts.results, ElementsAre(Cut()));
  EXPECT_EQ(plan.describe(), "on 4 devices, each with its part of 4 weights");
}

TEST(Sharding, AWeightThatIsTurnedFirstIsCutAsItLies) {
  const ir::Graph graph = ir::read_graph(R"(kpt_graph 1
parameter w: float32[8, 6] "w"
input x: float32[4, 6]
t: float32[6, 8] = aten.t.default(self=%w)
z: float32[4, 8] = aten.mm.default(self=%x, mat2=%t)
output %z "z"
)")
                              .value();
  EXPECT_EQ(ShardPlan::make(graph, 4, Sharding::kWeights).value().weight(0), Cut(0));
}

TEST(Sharding, WhatAPassMadeOfAWeightIsCutToo) {
  const ir::Graph graph = ir::read_graph(R"(kpt_graph 1
constant filters: float32[8, 6, 1, 3] "filters"
input x: float32[2, 6, 1, 9]
z: float32[2, 8, 1, 7] = kpt.conv2d.default(input=%x, weight=%filters, bias=none, residual=none, stride=[1, 1], padding=[0, 0], dilation=[1, 1], groups=1, activation="none")
output %z "z"
)")
                              .value();
  EXPECT_EQ(ShardPlan::make(graph, 4, Sharding::kWeights).value().weight(0), Cut(0));
}

TEST(Sharding, ExtentsThatDoNotDivideStayWhole) {
  const ir::Graph graph = ir::read_graph(kLayers).value();
  const ShardPlan plan = ShardPlan::make(graph, 3, Sharding::kWeights).value();
  EXPECT_EQ(plan.weight(0), Cut());
  EXPECT_EQ(plan.weight(2), Cut(0));  // its input is whole now
  const Status none = ShardPlan::make(graph, 5, Sharding::kWeights).status();
  EXPECT_EQ(none.code(), StatusCode::kModelPreparation);
  EXPECT_THAT(none.message(), HasSubstr("5 devices"));
}

TEST(Sharding, TheBatchIsCutWhereItIsTheFirstExtent) {
  const ir::Graph graph = ir::read_graph(R"(kpt_graph 1
parameter w: float32[8, 6] "w"
input x: float32[8, 6]
input scale: float32[6]
input mask: bool[8, 6]
p: float32[8, 6] = aten.mul.Tensor(self=%x, other=%scale)
q: float32[8, 6] = aten.mul.Tensor(self=%p, other=%mask)
y: float32[8, 8] = aten.linear.default(input=%q, weight=%w)
s: float32[] = aten.sum.default(self=%y)
output %y "y"
output %s "s"
)")
                              .value();
  const ShardPlan plan = ShardPlan::make(graph, 4, Sharding::kBatch).value();
  const ModuleCuts cuts = plan.cut(graph, lowered(graph)).value();
  EXPECT_THAT(cuts.arguments, ElementsAre(Cut(), Cut(0), Cut(), Cut(0)));
  EXPECT_THAT(cuts.results, ElementsAre(Cut(0), Cut()));
  const Status uneven = ShardPlan::make(graph, 3, Sharding::kBatch).value().cut(graph, lowered(graph)).status();
  EXPECT_EQ(uneven.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(uneven.message(), HasSubstr("3 devices cannot share a batch of 8 rows"));
}

TEST(Sharding, WithoutABatchThereIsNothingToShare) {
  const ir::Graph graph =
      ir::read_graph("kpt_graph 1\ninput x: float32[]\ny: float32[] = aten.relu.default(self=%x)\noutput %y \"y\"\n")
          .value();
  EXPECT_EQ(ShardPlan::make(graph, 2, Sharding::kBatch).value().cut(graph, lowered(graph)).status().code(),
            StatusCode::kModelPreparation);
}

TEST(Sharding, OneDeviceCutsNothing) {
  const ir::Graph graph = ir::read_graph(kLayers).value();
  const ShardPlan plan = ShardPlan::make(graph, 1, Sharding::kWeights).value();
  EXPECT_EQ(plan.weight(0), Cut());
  EXPECT_EQ(plan.describe(), "");
}

TEST(ModuleAttributes, StandBehindTheTypes) {
  MainAttributes attributes;
  attributes.mesh = mesh_operation(4);
  attributes.arguments[0] = {"a = 1 : i32", sharding_attribute(2, Cut(0))};
  attributes.arguments[12] = {sharding_attribute(1, Cut())};
  attributes.results[1] = {"b = 2 : i32"};
  EXPECT_EQ(add_attributes("module @kpt {\n  func.func public @main(%arg0: tensor<8x2xf32>, %arg12: tensor<3xf32>) -> "
                           "(tensor<8xf32>, tensor<f32>) {\n    x : tensor<f32>\n",
                           attributes),
            "module @kpt {\n  sdy.mesh @devices = <[\"part\"=4]>\n  func.func public @main(%arg0: tensor<8x2xf32> "
            "{a = 1 : i32, sdy.sharding = #sdy.sharding<@devices, [{\"part\"}, {}]>}, %arg12: tensor<3xf32> "
            "{sdy.sharding = #sdy.sharding<@devices, [{}]>}) -> (tensor<8xf32>, tensor<f32> {b = 2 : i32}) {\n"
            "    x : tensor<f32>\n");
}

}  // namespace
}  // namespace kpt
