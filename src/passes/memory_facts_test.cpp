#include "passes/memory_facts.h"

#include <gtest/gtest.h>

#include "ir/text.h"
#include "passes/graph_edit.h"
#include "passes/pass_testing.h"

namespace kpt {
namespace {

ir::ValueId find(const ir::Graph& graph, std::string_view name) {
  for (std::uint32_t value = 0; value < graph.values.size(); ++value) {
    if (graph.values[value].name == name) return static_cast<ir::ValueId>(value);
  }
  return ir::kNoValue;
}

constexpr const char* kText = R"(kpt_graph 1
buffer cache: float32[4]
buffer counter: int64[]
parameter w: float32[4]
buffer mean: float32[4]
buffer var: float32[4]
input x: float32[4]
input y: float32[2, 4]
view: float32[2, 2] = aten.view.default(self=%cache, size=[2, 2])
neg: float32[4] = aten.neg.default(self=%cache)
copy_: float32[4] = aten.copy_.default(self=%cache, src=%x)
cos: float32[4] = aten.cos.default(self=%w)
sub: float32[4] = mylib.mystery.default(t=%cos)
batch_norm: float32[2, 4] = aten.batch_norm.default(input=%y, weight=%w, bias=none, running_mean=%mean, running_var=%var, training=true, momentum=0.1, eps=1e-05, cudnn_enabled=false)
add: int64[] = aten.add.Tensor(self=%counter, other=1)
output %view "a"
output %neg "b"
output %copy_ "c"
output %sub "d"
output %batch_norm "e"
buffer_mutation %add "counter"
)";

TEST(MemoryFacts, WritesAreSeenThroughViews) {
  const ir::Graph graph = ir::read_graph(kText).value();
  const Weights weights = pass_testing::draw_weights(graph, 1);
  const MemoryFacts facts(graph, weights);
  for (const char* name : {"cache", "view", "copy_", "mean", "var", "cos", "sub"}) {
    EXPECT_TRUE(facts.is_written(find(graph, name))) << name;
  }
  for (const char* name : {"neg", "w", "x", "batch_norm", "add"}) {
    EXPECT_FALSE(facts.is_written(find(graph, name))) << name;
  }
  EXPECT_TRUE(facts.may_share(find(graph, "view"), find(graph, "copy_")));
  EXPECT_FALSE(facts.may_share(find(graph, "neg"), find(graph, "cache")));
  EXPECT_FALSE(facts.is_steady(find(graph, "view"), 0, 3));
  EXPECT_TRUE(facts.is_steady(find(graph, "view"), 2, 6));
  EXPECT_TRUE(facts.is_steady(find(graph, "x"), 0, 6));
}

TEST(MemoryFacts, SizesOfWrittenMemoryAreNotWritten) {
  const ir::Graph graph = ir::read_graph(R"(kpt_graph 1
symbol s0 in 1..8
input cache: float32[s0, 4]
input x: float32[s0, 4]
size: int(s0) = aten.sym_size.int(self=%cache, dim=0)
exp: float32[s0, 4] = aten.exp.default(self=%x)
view: float32[s0, 2, 2] = aten.view.default(self=%exp, size=[%size, 2, 2])
copy_: float32[s0, 4] = aten.copy_.default(self=%cache, src=%x)
output %view "y"
)")
                              .value();
  const MemoryFacts facts(graph, {});
  EXPECT_TRUE(facts.is_written(find(graph, "cache")));
  EXPECT_FALSE(facts.is_written(find(graph, "exp")));
  EXPECT_FALSE(facts.may_share(find(graph, "view"), find(graph, "cache")));
}

TEST(MemoryFacts, OnlyWeightsThatKeepTheirContentAreConstant) {
  const ir::Graph graph = ir::read_graph(kText).value();
  const Weights weights = pass_testing::draw_weights(graph, 1);
  const MemoryFacts facts(graph, weights);
  const ConstantWeights constants(graph, weights, facts);
  EXPECT_NE(constants.find(find(graph, "w")), nullptr);
  for (const char* name : {"cache", "counter", "mean", "x", "neg"}) {
    EXPECT_EQ(constants.find(find(graph, name)), nullptr) << name;
  }
}

TEST(MemoryFacts, WeightsThatOverlapShare) {
  const ir::Graph graph = ir::read_graph(R"(kpt_graph 1
buffer a: float32[4]
buffer b: float32[2]
buffer c: float32[2]
input x: float32[4]
copy_: float32[4] = aten.copy_.default(self=%a, src=%x)
output %b "b"
output %c "c"
)")
                              .value();
  const Tensor storage = Tensor::empty(DType::kFloat32, Dims{8}).value();
  Weights weights;
  const auto view = [&](std::int64_t size, std::int64_t offset) {
    return Tensor::from_buffer(storage.buffer(), DType::kFloat32, Dims{size}, Dims{1}, offset).value();
  };
  weights.emplace("a", view(4, 0));
  weights.emplace("b", view(2, 3));
  weights.emplace("c", view(2, 6));
  const MemoryFacts facts(graph, weights);
  EXPECT_TRUE(facts.is_written(find(graph, "b")));
  EXPECT_FALSE(facts.is_written(find(graph, "c")));
}

TEST(MemoryFacts, WhatMayBeTakenOut) {
  const auto node = [](const std::string& target) {
    ir::Node made;
    made.target = target;
    made.outputs = {{false, {ir::ValueId{0}}}};
    return made;
  };
  EXPECT_TRUE(is_removable(node("aten.add.Tensor")));
  EXPECT_TRUE(is_removable(node("aten.__and__.Tensor")));
  EXPECT_TRUE(is_removable(node("kpt.linear.default")));
  EXPECT_TRUE(is_removable(node("aten.empty.memory_format")));
  EXPECT_FALSE(is_pure(node("aten.empty.memory_format")));
  for (const char* target :
       {"aten.add_.Tensor", "aten.rand.default", "mylib.f.default", "higher_order.cond", "aten._assert_scalar.default",
        "aten.dropout.default", "aten.batch_norm.default", "aten.__iand__.Tensor", "aten.__irshift__.Scalar"}) {
    EXPECT_FALSE(is_removable(node(target))) << target;
  }
}

// All of PyTorch's operators with the tag nondeterministic_seeded that are no attention, and where they become others
// when writes are taken out.
TEST(MemoryFacts, WhatDrawsIsNeitherTakenOutNorMadeOnce) {
  ir::Node node;
  node.outputs = {{false, {ir::ValueId{0}}}};
  for (const char* name : {"_cudnn_init_dropout_state",
                           "_cudnn_rnn",
                           "_fill_mem_eff_dropout_mask",
                           "_fused_dropout",
                           "_lstm_mps",
                           "_sample_dirichlet",
                           "_standard_gamma",
                           "alpha_dropout",
                           "bernoulli",
                           "binomial",
                           "cauchy",
                           "dropout",
                           "exponential",
                           "feature_alpha_dropout",
                           "feature_dropout",
                           "geometric",
                           "gru",
                           "log_normal",
                           "lstm",
                           "miopen_rnn",
                           "multinomial",
                           "native_dropout",
                           "normal",
                           "normal_functional",
                           "poisson",
                           "rand",
                           "rand_like",
                           "randint",
                           "randint_like",
                           "randn",
                           "randn_like",
                           "random",
                           "randperm",
                           "rnn_relu",
                           "rnn_tanh",
                           "rrelu",
                           "rrelu_with_noise",
                           "rrelu_with_noise_functional",
                           "uniform"}) {
    node.target = std::string("aten.") + name + ".default";
    EXPECT_TRUE(draws_at_random(node)) << name;
    EXPECT_FALSE(is_removable(node)) << name;
    EXPECT_FALSE(is_pure(node)) << name;
    node.target = std::string("aten.") + name + "_.default";
    EXPECT_TRUE(draws_at_random(node)) << node.target;
  }
  for (const char* target : {"aten.add.Tensor", "aten.lstm_cell.default", "aten.native_layer_norm.default",
                             "mylib.rand.default", "aten.scaled_dot_product_attention.default"}) {
    node.target = target;
    EXPECT_FALSE(draws_at_random(node)) << target;
  }
  node.arguments = {{"train", {false}}};
  for (const char* target : {"aten.dropout.default", "aten.alpha_dropout_.default", "aten.lstm.input"}) {
    node.target = target;
    EXPECT_FALSE(draws_at_random(node)) << target;
  }
  node.arguments = {{"dropout_p", {0.5}}};
  for (const char* target :
       {"aten.scaled_dot_product_attention.default", "aten._efficient_attention_forward.default"}) {
    node.target = target;
    EXPECT_TRUE(draws_at_random(node)) << target;
  }
}

TEST(MemoryFacts, WritesThatNoNameTells) {
  const ir::Graph graph = ir::read_graph(R"(kpt_graph 1
buffer on: int64[1]
buffer least: float32[]
buffer greatest: float32[]
buffer scale: float32[1]
buffer zero: int32[1]
buffer mean: float32[4]
buffer var: float32[4]
input x: float32[2, 4]
quantized: float32[2, 4] = aten.fused_moving_avg_obs_fake_quant.default(self=%x, observer_on=%on, fake_quant_on=%on, running_min=%least, running_max=%greatest, scale=%scale, zero_point=%zero, averaging_const=0.01, quant_min=0, quant_max=255, ch_axis=0)
norm: float32[2, 4], a: float32[4], b: float32[4], c: uint8[0] = aten._batch_norm_with_update.default(input=%x, weight=none, bias=none, running_mean=%mean, running_var=%var, momentum=0.1, eps=1e-05)
output %quantized "y"
)")
                              .value();
  const MemoryFacts facts(graph, pass_testing::draw_weights(graph, 1));
  for (const char* name : {"least", "greatest", "scale", "zero", "mean", "var"}) {
    EXPECT_TRUE(facts.is_written(find(graph, name))) << name;
  }
  for (const ir::Node& node : graph.nodes) {
    EXPECT_TRUE(may_write(node)) << node.name;
    EXPECT_FALSE(is_removable(node)) << node.name;
  }
}

TEST(MemoryFacts, WhatGivesFreshMemory) {
  ir::Node node;
  for (const char* target : {"aten._safe_softmax.default", "aten.add.Tensor", "aten.diff.default", "aten.pad.default",
                             "kpt.linear.default"}) {
    node.target = target;
    EXPECT_TRUE(gives_fresh_memory(node)) << target;
  }
  for (const char* target : {"aten.add_.Tensor", "aten.contiguous.default", "aten.view.default", "mylib.f.default"}) {
    node.target = target;
    EXPECT_FALSE(gives_fresh_memory(node)) << target;
  }
}

TEST(MemoryFacts, ANodeMayWriteItselfOrInItsSubGraphs) {
  const ir::Graph graph = ir::read_graph(kText).value();
  for (const ir::Node& node : graph.nodes) {
    const bool writes = node.name == "copy_" || node.name == "sub" || node.name == "batch_norm";
    EXPECT_EQ(may_write(node), writes) << node.name;
  }
  ir::Node cond;
  cond.target = "higher_order.cond";
  EXPECT_TRUE(may_write(cond)) << "without bodies nobody knows";
  ir::Graph body = graph;
  std::erase_if(body.nodes, [](const ir::Node& node) { return may_write(node); });
  cond.arguments = {{"", {ir::Subgraph{"body", std::make_shared<const ir::Graph>(body)}}}};
  EXPECT_FALSE(may_write(cond));
  cond.arguments.push_back({"", {ir::Subgraph{"other", std::make_shared<const ir::Graph>(graph)}}});
  EXPECT_TRUE(may_write(cond));
}

TEST(GraphEdit, NumbersAreThoseThatTensorsHold) {
  ir::Graph graph = ir::read_graph(R"(kpt_graph 1
half: float32[] = aten.full.default(size=[], fill_value=0.5)
cut: int64[] = aten.full.default(size=[], fill_value=0.5, dtype=dtype(int64))
two: int64[] = aten.scalar_tensor.default(s=2.0, dtype=dtype(int64))
truth: bool[] = aten.scalar_tensor.default(s=2, dtype=dtype(bool))
byte: uint8[] = aten.full.default(size=[], fill_value=-1, dtype=dtype(uint8))
written: float32[] = aten.full.default(size=[], fill_value=0.5)
add_: float32[] = aten.add_.Tensor(self=%written, other=1.0)
output %half "a"
output %cut "b"
output %two "c"
output %truth "d"
output %byte "e"
output %add_ "f"
)")
                        .value();
  Weights weights;
  const GraphEdit edit(graph, weights);
  EXPECT_EQ(edit.constant_number(find(graph, "half")), 0.5);
  EXPECT_EQ(edit.constant_number(find(graph, "two")), 2.0);
  for (const char* name : {"cut", "truth", "byte", "written"}) {
    EXPECT_EQ(edit.constant_number(find(graph, name)), std::nullopt) << name;
  }
}

TEST(GraphEdit, InsertsInOrderAndTakesOutWhatFed) {
  ir::Graph graph = ir::read_graph(R"(kpt_graph 1
input x: float32[4]
exp: float32[4] = aten.exp.default(self=%x)
cos: float32[4] = aten.cos.default(self=%exp)
sin: float32[4] = aten.sin.default(self=%cos)
output %sin "y"
)")
                        .value();
  Weights weights;
  {
    GraphEdit edit(graph, weights);
    const ir::ValueId neg = edit.add_value("exp", edit.type(find(graph, "x")));
    EXPECT_EQ(graph.at(neg).name, "exp_1");
    edit.insert_before(2, make_node("neg", "aten.neg.default", {{"self", {find(graph, "x")}}}, neg));
    edit.replace_call(2, "aten.tanh.default", {{"self", {neg}}});
    EXPECT_FALSE(edit.is_alive(0));
    EXPECT_FALSE(edit.is_alive(1));
    const ir::ValueId last = edit.add_value("last", edit.type(find(graph, "x")));
    edit.insert_behind(2, make_node("abs", "aten.abs.default", {{"self", {find(graph, "sin")}}}, last));
    edit.replace_outputs(find(graph, "sin"), last);
  }
  remove_unused(graph, weights);
  EXPECT_EQ(ir::print_graph(graph), R"(kpt_graph 1
input x: float32[4]
exp_1: float32[4] = aten.neg.default(self=%x) name="neg"
sin: float32[4] = aten.tanh.default(self=%exp_1)
last: float32[4] = aten.abs.default(self=%sin) name="abs"
output %last "y"
)");
}

}  // namespace
}  // namespace kpt
