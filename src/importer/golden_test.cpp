// Golden files of every PyTorch version that we read: what the importer makes of them.
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "importer/model_file.h"
#include "support/tree_paths.h"

namespace kpt {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAreArray;

std::filesystem::path golden_folder() { return std::filesystem::path(source_dir()) / "tests/golden/pt2"; }

// One of each minor version. A folder that vanishes must not take its tests with it unseen.
const std::vector<std::string> kVersions = {"2.9.1", "2.10.0", "2.11.0", "2.12.1", "2.13.0", "2.14.1", "2.15.0"};

std::vector<std::string> folders() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(golden_folder())) {
    if (entry.is_directory()) names.push_back(entry.path().filename().string());
  }
  return names;
}

class Golden : public ::testing::TestWithParam<std::string> {
 protected:
  void import(const std::string& name) {
    Result<ImportedModel> result = import_model(golden_folder() / GetParam() / (name + ".pt2"));
    ASSERT_TRUE(result.ok()) << result.status().message();
    model_ = std::move(result).value();
  }

  std::vector<std::string> inputs(ir::InputKind kind) const {
    std::vector<std::string> names;
    for (const ir::GraphInput& input : model_.graph.inputs) {
      if (input.kind == kind) names.push_back(input.name);
    }
    return names;
  }
  std::vector<std::string> outputs(ir::OutputKind kind) const {
    std::vector<std::string> names;
    for (const ir::GraphOutput& output : model_.graph.outputs) {
      if (output.kind == kind) names.push_back(output.name);
    }
    return names;
  }
  std::vector<std::string> targets() const {
    std::vector<std::string> names;
    for (const ir::Node& node : model_.graph.nodes) names.push_back(node.target);
    return names;
  }
  const ir::Node& node(std::string_view target) const {
    for (const ir::Node& node : model_.graph.nodes) {
      if (node.target == target) return node;
    }
    ADD_FAILURE() << "no node " << target;
    static const ir::Node kNone;
    return kNone;
  }
  const ir::GraphInput& input(std::string_view name) const {
    for (const ir::GraphInput& input : model_.graph.inputs) {
      if (input.name == name) return input;
    }
    ADD_FAILURE() << "no input " << name;
    static const ir::GraphInput kNone;
    return kNone;
  }
  const ir::Argument& argument(const ir::Node& node, std::string_view name) const {
    for (const ir::NamedArgument& argument : node.arguments) {
      if (argument.name == name) return argument.value;
    }
    ADD_FAILURE() << "no argument " << name;
    static const ir::Argument kNone;
    return kNone;
  }

  ImportedModel model_;
};

INSTANTIATE_TEST_SUITE_P(PyTorch, Golden, ::testing::ValuesIn(kVersions), [](const auto& version) {
  std::string name = version.param;
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
});

TEST(GoldenFiles, AreOfTheVersionsThatAreTested) { EXPECT_THAT(folders(), UnorderedElementsAreArray(kVersions)); }

TEST(GoldenFiles, OlderGenerationsAreRefusedWithTheWayOut) {
  for (const char* name : {"linear_state_2.6.0.pt2", "linear_state_2.7.1.pt2", "linear_state_2.8.0.pt2"}) {
    const Result<ImportedModel> model = import_model(golden_folder().parent_path() / "refused" / name);
    ASSERT_FALSE(model.ok());
    EXPECT_EQ(model.status().code(), StatusCode::kVersionMismatch);
    EXPECT_THAT(model.status().message(), HasSubstr(name));
    EXPECT_THAT(model.status().message(), HasSubstr("re-export with PyTorch 2.9 or newer"));
  }
}

// The exporter writes such a list as one of tensors.
TEST_P(Golden, SubgraphsTakeNumbersBesideTensors) {
  struct Case {
    const char* name;
    const char* target;
    std::size_t operands;  // which argument
  };
  for (const Case& wanted :
       {Case{"cond_sizes", "higher_order.cond", 3}, Case{"while_sizes", "higher_order.while_loop", 2}}) {
    SCOPED_TRACE(wanted.name);
    const auto model = import_model(golden_folder() / GetParam() / (std::string(wanted.name) + ".pt2"));
    ASSERT_TRUE(model.ok()) << model.status().message();
    const auto node = std::ranges::find(model->graph.nodes, wanted.target, &ir::Node::target);
    ASSERT_NE(node, model->graph.nodes.end());
    std::vector<ir::ValueKind> kinds;
    for (const ir::Argument& item : node->arguments.at(wanted.operands).value.list()->items) {
      kinds.push_back(model->graph.at(*item.value_id()).kind);
    }
    EXPECT_THAT(kinds, ElementsAre(ir::ValueKind::kInt, ir::ValueKind::kTensor));
  }
}

TEST_P(Golden, LinearWithStateHasNamedResultsAndSymbols) {
  ASSERT_NO_FATAL_FAILURE(import("linear_state"));
  EXPECT_THAT(model_.producer, StartsWith(GetParam()));
  EXPECT_THAT(model_.schema_version, StartsWith("8."));
  EXPECT_THAT(model_.notes, IsEmpty());
  EXPECT_THAT(inputs(ir::InputKind::kUser), ElementsAre("x"));
  EXPECT_THAT(inputs(ir::InputKind::kParameter), ElementsAre("linear.weight", "linear.bias"));
  EXPECT_THAT(inputs(ir::InputKind::kBuffer), ElementsAre("count", "shift"));
  EXPECT_THAT(outputs(ir::OutputKind::kUser), ElementsAre("y", "scaled", "rows"));
  ASSERT_EQ(model_.graph.symbols.size(), 1U);
  EXPECT_EQ(model_.graph.symbols[0].max, 64);
  EXPECT_TRUE(input("count").persistent);
  EXPECT_FALSE(input("shift").persistent);
  const ir::TensorType& type = model_.graph.at(input("x").value).tensor;
  ASSERT_EQ(type.dims.size(), 2U);
  EXPECT_EQ(type.dims[0].name(), model_.graph.symbols[0].name);
  EXPECT_EQ(type.dims[1].constant(), 4);
  EXPECT_EQ(type.dtype, DType::kFloat32);
  const Tensor& shift = model_.weights.at("shift");
  EXPECT_EQ(shift.dims(), Dims({3}));
  EXPECT_THAT(shift.elements<const float>(), ElementsAre(0.5F, -1.0F, 2.0F));
  EXPECT_FALSE(shift.buffer()->writable());
  EXPECT_THAT(targets(), Contains("aten.add_.Tensor"));
  EXPECT_EQ(std::get<std::int64_t>(argument(node("aten.add_.Tensor"), "other").value), 1);
}

TEST_P(Golden, SourceLinesComeFromTheModelNotFromPyTorch) {
  ASSERT_NO_FATAL_FAILURE(import("linear_state"));
  const std::string line = find_source_line(model_, node("aten.linear.default"));
  EXPECT_THAT(line, StartsWith("make_golden.py:"));
  EXPECT_THAT(line, HasSubstr(" in forward: y = self.linear(x) + self.shift"));
  ir::Node without = node("aten.linear.default");
  without.metadata_offset = 0;
  EXPECT_EQ(find_source_line(model_, without), "");
}

TEST_P(Golden, TiedWeightsShareTheirMemory) {
  ASSERT_NO_FATAL_FAILURE(import("tied"));
  const Tensor& embed = model_.weights.at("embed.weight");
  EXPECT_EQ(embed.dims(), Dims({7, 4}));
  if (model_.weights.contains("head.weight")) {
    EXPECT_EQ(model_.weights.at("head.weight").buffer(), embed.buffer());
  }
  const Tensor& turned = model_.weights.at("turned");
  EXPECT_EQ(turned.dims(), Dims({4, 7}));
  EXPECT_EQ(turned.strides(), Dims({1, 4}));
  EXPECT_EQ(static_cast<const float*>(turned.data())[5], static_cast<const float*>(embed.data())[5]);
  EXPECT_THAT(outputs(ir::OutputKind::kUser), ElementsAre("output_0", "output_1"));
}

TEST_P(Golden, DropoutOfInferenceIsGone) {
  ASSERT_NO_FATAL_FAILURE(import("conv_norm"));
  EXPECT_THAT(targets(), Not(Contains("aten.dropout.default")));
  EXPECT_THAT(targets(), Contains("aten.conv2d.default"));
  EXPECT_THAT(outputs(ir::OutputKind::kUser), ElementsAre("output"));
}

TEST_P(Golden, ListsAndUnusedResultsAreValues) {
  ASSERT_NO_FATAL_FAILURE(import("split"));
  const ir::Node& split = node("aten.split_with_sizes.default");
  ASSERT_EQ(split.outputs.size(), 1U);
  EXPECT_TRUE(split.outputs[0].is_list);
  EXPECT_EQ(split.outputs[0].values.size(), 3U);
  const ir::Node& topk = node("aten.topk.default");
  ASSERT_EQ(topk.outputs.size(), 2U);
  EXPECT_FALSE(topk.outputs[0].is_list);
  EXPECT_EQ(model_.graph.at(topk.outputs[1].values.at(0)).tensor.dtype, DType::kInt64);
  EXPECT_THAT(outputs(ir::OutputKind::kUser),
              ElementsAre("output_0", "output_1.0", "output_1.1", "output_2", "output_3", "output_4"));
  EXPECT_TRUE(std::holds_alternative<ir::None>(model_.graph.outputs[4].value.value));
  EXPECT_EQ(std::get<std::int64_t>(model_.graph.outputs[5].value.value), 3);
}

TEST_P(Golden, SizesAreExpressions) {
  ASSERT_NO_FATAL_FAILURE(import("sizes"));
  ASSERT_EQ(model_.graph.outputs.size(), 4U);
  const ir::Value& flat = model_.graph.at(*model_.graph.outputs[0].value.value_id());
  const ir::Value& number = model_.graph.at(*model_.graph.outputs[3].value.value_id());
  EXPECT_EQ(number.kind, ir::ValueKind::kInt);
  ir::Bindings bindings;
  const ir::TensorType& type = model_.graph.at(input("x").value).tensor;
  bindings.set(type.dims[0].name(), 5);
  bindings.set(type.dims[1].name(), 7);
  EXPECT_EQ(flat.tensor.dims[0].evaluate(bindings).value(), 35);
  EXPECT_EQ(number.expression.evaluate(bindings).value(), 5 * 2 - 3);
}

TEST_P(Golden, DecomposedProgramsNameWhatTheyWrite) {
  ASSERT_NO_FATAL_FAILURE(import("writes"));
  EXPECT_THAT(outputs(ir::OutputKind::kBufferMutation), ElementsAre("cache"));
  EXPECT_THAT(outputs(ir::OutputKind::kInputMutation), ElementsAre("x"));
  EXPECT_THAT(outputs(ir::OutputKind::kUser), ElementsAre("output"));
  ASSERT_NO_FATAL_FAILURE(import("writes_plain"));
  EXPECT_THAT(outputs(ir::OutputKind::kBufferMutation), IsEmpty());
  EXPECT_THAT(targets(), Contains("aten.index_copy_.default"));
}

TEST_P(Golden, GradModesAreInlinedAndKeptOnTheNodes) {
  ASSERT_NO_FATAL_FAILURE(import("grad_modes"));
  EXPECT_THAT(targets(), ElementsAre("aten.linear.default", "aten.mul.Tensor", "aten.add.Tensor", "aten.sin.default",
                                     "aten.add.Tensor"));
  std::vector<bool> modes;
  for (const ir::Node& node : model_.graph.nodes) modes.push_back(node.grad_enabled);
  EXPECT_THAT(modes, ElementsAre(false, true, false, true, true));
  EXPECT_EQ(model_.graph.values.size(), 5U + 3U);
}

TEST_P(Golden, AutocastRegionsAreInlinedWithTheirCasts) {
  ASSERT_NO_FATAL_FAILURE(import("autocast"));
  EXPECT_THAT(targets(), ElementsAre("aten.to.dtype", "aten.to.dtype", "aten.to.dtype", "aten.linear.default",
                                     "aten.softmax.int", "aten.transpose.int", "aten.matmul.default"));
  const ir::Node& linear = node("aten.linear.default");
  for (const ir::NamedArgument& argument : linear.arguments) {
    EXPECT_EQ(model_.graph.at(*argument.value.value_id()).tensor.dtype, DType::kBFloat16) << argument.name;
  }
  const ir::Node& matmul = node("aten.matmul.default");
  EXPECT_EQ(model_.graph.at(*matmul.arguments[0].value.value_id()).tensor.dtype, DType::kFloat32);
}

TEST_P(Golden, BFloat16WeightsAreViews) {
  ASSERT_NO_FATAL_FAILURE(import("bf16"));
  EXPECT_EQ(model_.weights.at("linear.weight").dtype(), DType::kBFloat16);
  EXPECT_FALSE(model_.weights.at("linear.weight").buffer()->writable());
}

TEST_P(Golden, NestedArgumentsAndResultsHaveTheirPaths) {
  ASSERT_NO_FATAL_FAILURE(import("kwargs"));
  EXPECT_THAT(inputs(ir::InputKind::kUser), ElementsAre("x", "pair.k.0", "pair.l.0", "pair.l.1", "count"));
  EXPECT_THAT(inputs(ir::InputKind::kFixed), ElementsAre("scale", "flag", "text", "absent"));
  EXPECT_EQ(std::get<std::int64_t>(input("scale").fixed.value), 3);
  EXPECT_TRUE(std::get<bool>(input("flag").fixed.value));
  EXPECT_EQ(std::get<std::string>(input("text").fixed.value), "b");
  EXPECT_TRUE(std::holds_alternative<ir::None>(input("absent").fixed.value));
  EXPECT_EQ(model_.graph.at(input("count").value).kind, ir::ValueKind::kInt);
  EXPECT_THAT(outputs(ir::OutputKind::kUser), ElementsAre("output_0.first", "output_0.second.logits",
                                                          "output_0.second.hidden", "output_1.q", "output_1.r"));
}

TEST_P(Golden, SubgraphsAreGraphsOfTheirOwn) {
  ASSERT_NO_FATAL_FAILURE(import("cond"));
  const ir::Node& cond = node("higher_order.cond");
  ASSERT_EQ(cond.arguments.size(), 4U);
  const auto* graph = std::get_if<ir::Subgraph>(&cond.arguments[1].value.value);
  ASSERT_NE(graph, nullptr);
  EXPECT_EQ(graph->graph->outputs.size(), 2U);
  EXPECT_EQ(graph->graph->inputs.size(), 1U);
  ASSERT_NE(cond.arguments[3].value.list(), nullptr);
}

TEST_P(Golden, ConstantsOfEveryKindAreRead) {
  ASSERT_NO_FATAL_FAILURE(import("numbers"));
  EXPECT_EQ(std::get<double>(argument(node("aten.masked_fill.Scalar"), "value").value),
            -std::numeric_limits<double>::infinity());
  EXPECT_EQ(std::get<std::complex<double>>(argument(node("aten.mul.Tensor"), "other").value),
            std::complex<double>(1, 2));
  EXPECT_EQ(std::get<DType>(argument(node("aten.arange.default"), "dtype").value), DType::kInt32);
  EXPECT_EQ(std::get<ir::DeviceSpec>(argument(node("aten.arange.default"), "device").value).type, "cpu");
  const ir::List* indices = argument(node("aten.index.Tensor"), "indices").list();
  ASSERT_NE(indices, nullptr);
  EXPECT_EQ(indices->element, ir::ElementKind::kOptionalTensor);
  ASSERT_EQ(indices->items.size(), 2U);
  EXPECT_TRUE(std::holds_alternative<ir::None>(indices->items[0].value));
  EXPECT_EQ(model_.weights.at("big").elements<const std::int64_t>()[0], std::int64_t{1} << 40);
  EXPECT_THAT(outputs(ir::OutputKind::kUser), ElementsAre("y", "z", "ids", "any", "turned", "picked"));
}

}  // namespace
}  // namespace kpt
