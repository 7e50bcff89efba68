#include "passes/runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/text.h"
#include "passes/graph_edit.h"
#include "passes/node_arguments.h"
#include "passes/pass_testing.h"

namespace kpt {
namespace {

using testing::HasSubstr;

constexpr const char* kRunGraph = R"(kpt_graph 1
parameter w: float32[3] "w"
parameter unused: float32[3] "unused"
input x: float32[3]
add: float32[3] = aten.add.Tensor(self=%x, other=%w)
relu: float32[3] = aten.relu.default(self=%add)
output %relu "y"
)";

Support anywhere(const Capabilities&) { return {}; }
Support nowhere(const Capabilities&) { return {false, "the target has no such thing"}; }

Result<PassStats> to_tanh(ir::Graph& graph, PassContext& context) {
  GraphEdit edit(graph, context.weights);
  PassStats stats;
  for (NodeIndex index = 0; index < edit.size(); ++index) {
    if (!is_any(edit.node(index), {"aten.relu.default"})) continue;
    edit.replace_call(index, "aten.tanh.default", edit.node(index).arguments);
    ++stats.changes;
  }
  return stats;
}

Result<PassStats> add_weight_and_fail(ir::Graph& graph, PassContext& context) {
  GraphEdit edit(graph, context.weights);
  edit.add_weight("more", Tensor::empty(DType::kFloat32, Dims{2}).value());
  context.weights.erase("w");
  return Status(StatusCode::kOutOfMemory, "no room");
}

Result<PassStats> refuse(ir::Graph& graph, PassContext&) {
  graph.nodes.clear();
  return Status(StatusCode::kUnsupported, "weights are not made in bits32", Vendor::kAmd).with("node", "mm");
}

Result<PassStats> break_order(ir::Graph& graph, PassContext&) {
  std::swap(graph.nodes[0], graph.nodes[1]);
  return PassStats{1, {}};
}

Result<PassStats> scribble_without_change(ir::Graph& graph, PassContext& context) {
  graph.nodes.clear();
  context.weights.clear();
  return PassStats{0, {"looked only"}};
}

constexpr Pass kToTanh = {"to_tanh", "", true, anywhere, to_tanh};
constexpr Pass kFails = {"fails", "", true, anywhere, add_weight_and_fail};
constexpr Pass kRefuses = {"refuses", "", true, anywhere, refuse};
constexpr Pass kBreaks = {"breaks", "", true, anywhere, break_order};
constexpr Pass kScribbles = {"scribbles", "", true, anywhere, scribble_without_change};
constexpr Pass kNowhere = {"nowhere", "", true, nowhere, to_tanh};

class RunnerTest : public testing::Test {
 protected:
  RunnerTest()
      : graph_(ir::read_graph(kRunGraph).value()), before_(graph_), weights_(pass_testing::draw_weights(graph_, 1)) {}

  bool same_weights(const Weights& other) const {
    return std::equal(weights_.begin(), weights_.end(), other.begin(), other.end(), [](const auto& a, const auto& b) {
      return a.first == b.first && a.second.buffer() == b.second.buffer();
    });
  }

  ir::Graph graph_;
  ir::Graph before_;
  Weights weights_;
  Capabilities capabilities_;
};

TEST_F(RunnerTest, RunsAndTakesOutWhatNobodyUses) {
  PassContext context{weights_, capabilities_, {}, {}};
  int dumps = 0;
  RunnerOptions options;
  options.dump_after = [&](const Pass& pass, const ir::Graph& after) {
    EXPECT_EQ(pass.name, "to_tanh");
    EXPECT_EQ(after.nodes.back().target, "aten.tanh.default");
    ++dumps;
  };
  const auto records = run_passes(std::vector{&kToTanh, &kNowhere, &kScribbles}, graph_, context, options);
  ASSERT_TRUE(records.ok()) << records.status().message();
  EXPECT_EQ((*records)[0].changes, 1U);
  EXPECT_EQ((*records)[1].skipped, "the target has no such thing");
  EXPECT_EQ((*records)[2].changes, 0U);
  EXPECT_EQ((*records)[2].skipped, "");
  EXPECT_EQ(dumps, 1);
  EXPECT_FALSE(weights_.contains("unused"));
  EXPECT_TRUE(weights_.contains("w"));
  EXPECT_EQ(graph_.nodes.size(), 2U);
}

TEST_F(RunnerTest, AFailureLeavesAllAsItWas) {
  Weights weights = weights_;
  PassContext context{weights, capabilities_, {}, {}};
  const auto records = run_passes(std::vector{&kToTanh, &kFails}, graph_, context);
  EXPECT_EQ(records.status().code(), StatusCode::kOutOfMemory);
  EXPECT_EQ(graph_, before_);
  EXPECT_TRUE(same_weights(weights));
}

TEST_F(RunnerTest, WhatAPassCannotRewriteIsATypedErrorThatNamesIt) {
  Weights weights = weights_;
  PassContext context{weights, capabilities_, {}, {}};
  const auto records = run_passes(std::vector{&kToTanh, &kRefuses}, graph_, context);
  EXPECT_EQ(records.status().code(), StatusCode::kModelOptimization);
  EXPECT_EQ(records.status().message(), "the pass refuses cannot rewrite this model: weights are not made in bits32");
  EXPECT_EQ(records.status().vendor(), Vendor::kAmd);
  EXPECT_EQ(records.status().details(), (std::vector<StatusDetail>{{"node", "mm"}}));
  EXPECT_EQ(graph_, before_);
}

TEST_F(RunnerTest, ABrokenGraphIsAnInternalErrorThatNamesThePass) {
  Weights weights = weights_;
  PassContext context{weights, capabilities_, {}, {}};
  const auto records = run_passes(std::vector{&kBreaks}, graph_, context);
  EXPECT_EQ(records.status().code(), StatusCode::kInternal);
  EXPECT_THAT(records.status().message(), HasSubstr("breaks"));
  EXPECT_EQ(graph_, before_);
  EXPECT_TRUE(same_weights(weights));
}

TEST_F(RunnerTest, AFailedCheckTakesThePassBackAndGoesOn) {
  Weights weights = weights_;
  PassContext context{weights, capabilities_, {}, {}};
  RunnerOptions options;
  options.check_each = [&](const Pass&, const ir::Graph& before, const Weights& weights_before, const ir::Graph& after,
                           const Weights&) -> Status {
    EXPECT_EQ(before, before_);
    EXPECT_TRUE(same_weights(weights_before));
    EXPECT_NE(after, before_);
    return {StatusCode::kValidation, "relu_3 differs"};
  };
  const auto records = run_passes(std::vector{&kToTanh, &kScribbles}, graph_, context, options);
  ASSERT_TRUE(records.ok());
  EXPECT_EQ(records->size(), 2U);
  EXPECT_EQ((*records)[0].changes, 0U);
  EXPECT_EQ((*records)[0].skipped, "relu_3 differs");
  EXPECT_TRUE((*records)[0].taken_back);
  EXPECT_FALSE((*records)[1].taken_back);
  EXPECT_EQ(graph_, before_);
  EXPECT_TRUE(same_weights(weights));
  options.check_each = [](auto&&...) -> Status { return {StatusCode::kInternal, "the check itself broke"}; };
  EXPECT_EQ(run_passes(std::vector{&kToTanh}, graph_, context, options).status().code(), StatusCode::kInternal);
  EXPECT_EQ(graph_, before_);
}

TEST_F(RunnerTest, APassThatStandsTwiceIsLeftOutWhereItIsSaid) {
  PassContext context{weights_, capabilities_, {}, {}};
  RunnerOptions options;
  options.left_out[0] = "it failed there";
  const auto records = run_passes(std::vector{&kToTanh, &kScribbles, &kToTanh}, graph_, context, options);
  ASSERT_TRUE(records.ok());
  EXPECT_EQ((*records)[0].skipped, "it failed there");
  EXPECT_EQ((*records)[0].changes, 0U);
  EXPECT_EQ((*records)[2].skipped, "");
  EXPECT_EQ((*records)[2].changes, 1U);
}

TEST_F(RunnerTest, DisabledPassesAreSkippedAndUnknownNamesRefused) {
  PassContext context{weights_, capabilities_, {}, {}};
  const auto records = run_passes(std::vector{&kToTanh}, graph_, context, {{"to_tanh"}, {}, {}});
  ASSERT_TRUE(records.ok());
  EXPECT_EQ((*records)[0].skipped, "switched off");
  const auto refused = run_passes(std::vector{&kToTanh}, graph_, context, {{"to_tanhh"}, {}, {}});
  EXPECT_EQ(refused.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.status().message(), HasSubstr("'to_tanh'"));
}

}  // namespace
}  // namespace kpt
