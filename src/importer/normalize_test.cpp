#include "importer/normalize.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "importer/autocast.h"
#include "ir/text.h"
#include "ir/verifier.h"

namespace kpt {
namespace {

using ::testing::HasSubstr;

// Builds graphs of float32[2, 2] tensors by hand.
struct Builder {
  ir::Graph graph;

  ir::ValueId tensor(const std::string& name, DType dtype = DType::kFloat32) {
    ir::Value value;
    value.name = name;
    value.tensor.dtype = dtype;
    value.tensor.dims = {2, 2};
    value.tensor.strides = {2, 1};
    return graph.add_value(value);
  }
  ir::ValueId input(const std::string& name, DType dtype = DType::kFloat32) {
    const ir::ValueId id = tensor(name, dtype);
    ir::GraphInput& made = graph.inputs.emplace_back();
    made.value = id;
    made.name = name;
    return id;
  }
  ir::ValueId call(const std::string& target, const std::string& name, std::vector<ir::NamedArgument> arguments,
                   DType dtype = DType::kFloat32) {
    ir::Node node;
    node.target = target;
    node.name = name;
    node.arguments = std::move(arguments);
    const ir::ValueId id = tensor(name, dtype);
    node.outputs = {{.is_list = false, .values = {id}}};
    graph.nodes.push_back(std::move(node));
    return id;
  }
  void output(ir::ValueId id) {
    ir::GraphOutput& made = graph.outputs.emplace_back();
    made.value.value = id;
    made.name = "output_" + std::to_string(graph.outputs.size());
  }
  ir::Argument as_subgraph() const { return {ir::Subgraph{"body", std::make_shared<const ir::Graph>(graph)}}; }
};

std::vector<std::string> targets(const ir::Graph& graph) {
  std::vector<std::string> names;
  for (const ir::Node& node : graph.nodes) names.push_back(node.target);
  return names;
}

void normalize_well(ir::Graph* graph) {
  ASSERT_TRUE(ir::verify(*graph).ok()) << ir::verify(*graph).message();
  const Status status = normalize(graph);
  ASSERT_TRUE(status.ok()) << status.message();
  ASSERT_TRUE(ir::verify(*graph).ok()) << ir::verify(*graph).message() << ir::print_graph(*graph);
}

TEST(Normalize, NoOperationsBecomeTheirInput) {
  Builder b;
  const ir::ValueId x = b.input("x");
  ir::ValueId y = b.call("aten.detach.default", "d", {{"self", {x}}});
  y = b.call("aten.alias.default", "a", {{"self", {y}}});
  y = b.call("aten.dropout.default", "drop", {{"input", {y}}, {"p", {0.5}}, {"train", {false}}});
  const ir::ValueId z = b.call("aten.sin.default", "s", {{"self", {y}}});
  b.output(z);
  b.output(y);
  normalize_well(&b.graph);
  EXPECT_THAT(targets(b.graph), ::testing::ElementsAre("aten.sin.default"));
  EXPECT_EQ(b.graph.values.size(), 2U);
  EXPECT_EQ(b.graph.at(*b.graph.outputs[1].value.value_id()).name, "x");
}

TEST(Normalize, EveryAliasIsItsInput) {
  for (const char* target : {"aten.detach.default", "aten.detach_.default", "aten.alias.default"}) {
    Builder b;
    b.output(b.call(target, "y", {{"self", {b.input("x")}}}));
    normalize_well(&b.graph);
    EXPECT_TRUE(b.graph.nodes.empty()) << target;
  }
}

TEST(Normalize, DropoutsOfEveryKindGoAndThoseOfTrainingStay) {
  for (const char* target :
       {"aten.dropout.default", "aten.dropout_.default", "aten.feature_dropout.default",
        "aten.feature_dropout_.default", "aten.alpha_dropout.default", "aten.alpha_dropout_.default",
        "aten.feature_alpha_dropout.default", "aten.feature_alpha_dropout_.default"}) {
    for (const bool train : {false, true}) {
      Builder b;
      b.output(b.call(target, "drop", {{"input", {b.input("x")}}, {"p", {0.5}}, {"train", {train}}}));
      normalize_well(&b.graph);
      EXPECT_EQ(b.graph.nodes.size(), train ? 1U : 0U) << target;
    }
  }
}

TEST(Normalize, AssertionsOfTheExportingMachineGoAndOthersStay) {
  Builder b;
  const ir::ValueId x = b.input("x");
  for (const char* target : {"aten._assert_tensor_metadata.default", "aten.sym_constrain_range.default",
                             "aten.sym_constrain_range_for_size.default", "aten._assert_async.msg"}) {
    ir::Node node;
    node.target = target;
    node.name = target;
    node.arguments = {{"a", {x}}};
    b.graph.nodes.push_back(node);
  }
  b.output(x);
  normalize_well(&b.graph);
  EXPECT_THAT(targets(b.graph), ::testing::ElementsAre("aten._assert_async.msg"));
}

TEST(Normalize, UnusedArithmeticOnSizesGoes) {
  Builder b;
  const ir::ValueId x = b.input("x");
  for (const char* name : {"size", "double"}) {
    ir::Value value;
    value.name = name;
    value.kind = ir::ValueKind::kInt;
    const ir::ValueId id = b.graph.add_value(value);
    ir::Node node;
    node.target = std::string(name) == "size" ? "aten.sym_size.int" : "_operator.mul";
    node.name = name;
    node.arguments = {{"a", {std::string(name) == "size" ? x : static_cast<ir::ValueId>(1)}}};
    node.outputs = {{.is_list = false, .values = {id}}};
    b.graph.nodes.push_back(node);
  }
  b.output(x);
  normalize_well(&b.graph);
  EXPECT_TRUE(b.graph.nodes.empty());
}

TEST(Normalize, InlinedValuesGetNamesOfTheirOwn) {
  Builder inner;
  const ir::ValueId a = inner.input("x");
  inner.output(inner.call("aten.sin.default", "y", {{"self", {a}}}));
  inner.output(a);
  Builder b;
  const ir::ValueId x = b.input("x");
  const ir::ValueId y = b.call("aten.cos.default", "y", {{"self", {x}}});
  b.call("higher_order.wrap_with_set_grad_enabled", "w", {{"", {false}}, {"", inner.as_subgraph()}, {"", {y}}});
  const ir::ValueId second = b.tensor("second");
  b.graph.nodes.back().outputs.push_back({.is_list = false, .values = {second}});
  b.output(*b.graph.nodes.back().outputs[0].values.data());
  b.output(second);
  normalize_well(&b.graph);
  EXPECT_THAT(targets(b.graph), ::testing::ElementsAre("aten.cos.default", "aten.sin.default"));
  EXPECT_TRUE(b.graph.nodes[0].grad_enabled);
  EXPECT_FALSE(b.graph.nodes[1].grad_enabled);
  EXPECT_EQ(b.graph.at(*b.graph.outputs[0].value.value_id()).name, "w.y");
  EXPECT_EQ(b.graph.at(*b.graph.outputs[1].value.value_id()).name, "y");
}

TEST(Normalize, WrappersThatDoNotFitTheirGraphAreRefused) {
  Builder inner;
  inner.output(inner.input("x"));
  for (const std::size_t operands : {std::size_t{0}, std::size_t{2}}) {
    Builder b;
    const ir::ValueId x = b.input("x");
    std::vector<ir::NamedArgument> arguments = {{"", {false}}, {"", inner.as_subgraph()}};
    for (std::size_t i = 0; i < operands; ++i) arguments.push_back({"", {x}});
    b.output(b.call("higher_order.wrap_with_set_grad_enabled", "w", arguments));
    const Status status = normalize(&b.graph);
    EXPECT_EQ(status.code(), StatusCode::kCorruptData);
    EXPECT_THAT(status.message(), HasSubstr("'w'"));
  }
}

ir::Graph autocast_graph(const std::string& target, DType result, const std::string& device = "cpu") {
  Builder inner;
  const ir::ValueId a = inner.input("a");
  const ir::ValueId c = inner.input("c", DType::kBFloat16);
  ir::List list{.element = ir::ElementKind::kTensor, .items = {{a}, {c}}};
  // Not by `?:`: GCC 12 on x86_64 then takes the names of these arguments for uninitialized.
  std::vector<ir::NamedArgument> arguments = {{"self", {a}}, {"other", {a}}};
  if (target.starts_with("aten.cat")) arguments = {{"tensors", {list}}};
  inner.output(inner.call(target, "r", arguments, result));
  Builder b;
  const ir::ValueId x = b.input("x");
  const ir::ValueId z = b.input("z", DType::kBFloat16);
  b.output(b.call("higher_order.wrap_with_autocast", "w",
                  {{"", {device}},
                   {"", {DType::kBFloat16}},
                   {"", {true}},
                   {"", {true}},
                   {"", inner.as_subgraph()},
                   {"", {x}},
                   {"", {z}}},
                  result));
  return b.graph;
}

TEST(Normalize, AutocastIsWrittenOut) {
  ir::Graph lower = autocast_graph("aten.mm.default", DType::kBFloat16);
  normalize_well(&lower);
  EXPECT_THAT(targets(lower), ::testing::ElementsAre("aten.to.dtype", "aten.to.dtype", "aten.mm.default"));
  ir::Graph widest = autocast_graph("aten.cat.default", DType::kFloat32);
  normalize_well(&widest);
  EXPECT_THAT(targets(widest), ::testing::ElementsAre("aten.to.dtype", "aten.cat.default"));
  EXPECT_EQ(std::get<DType>(widest.nodes[0].arguments[1].value.value), DType::kFloat32);
  ir::Graph plain = autocast_graph("aten.add.Tensor", DType::kFloat32);
  normalize_well(&plain);
  EXPECT_THAT(targets(plain), ::testing::ElementsAre("aten.add.Tensor"));
}

TEST(Normalize, AutocastThatCannotBeWrittenOutIsRefused) {
  ir::Graph unknown = autocast_graph("aten.einsum.default", DType::kBFloat16);
  EXPECT_EQ(normalize(&unknown).code(), StatusCode::kUnsupported);
  ir::Graph device = autocast_graph("aten.mm.default", DType::kBFloat16, "xpu");
  EXPECT_THAT(normalize(&device).message(), HasSubstr("xpu"));
}

}  // namespace
}  // namespace kpt
