#include "validation/faults.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "execution/bert_graph.h"

namespace kpt::validation_test {
namespace {

// The weight that a node takes as an argument, as memory of its own.
Tensor own_weight(ImportedModel& model, const std::string& node, const std::string& argument) {
  const ir::ValueId id = *argument_of(node_named(model, node), argument).value_id();
  const auto input = std::ranges::find(model.graph.inputs, id, &ir::GraphInput::value);
  Tensor& weight = model.weights.find(input->name)->second;
  weight = weight.contiguous_copy().value();
  return weight;
}

std::function<void(ImportedModel&)> set_argument(std::string node, std::string name, ir::Argument value) {
  return [=](ImportedModel& model) { argument_of(node_named(model, node), name) = value; };
}

void transpose_query_weight(ImportedModel& model) {
  const Tensor weight = own_weight(model, "linear", "weight");
  const auto rows = static_cast<std::size_t>(weight.dims()[0]);
  const auto elements = weight.elements<float>();
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t column = 0; column < row; ++column) {
      std::swap(elements[row * rows + column], elements[column * rows + row]);
    }
  }
}

// linear_4 with an int8 weight and a scale per row; `inverted` divides by the scale.
void quantize(ImportedModel& model, bool inverted) {
  const Tensor weight = own_weight(model, "linear_4", "weight");
  const auto rows = static_cast<std::size_t>(weight.dims()[0]);
  const auto columns = static_cast<std::size_t>(weight.dims()[1]);
  const Tensor small = Tensor::empty(DType::kInt8, weight.dims()).value();
  const Tensor scale = Tensor::empty(DType::kFloat32, Dims{weight.dims()[0], 1}).value();
  for (std::size_t row = 0; row < rows; ++row) {
    const auto elements = weight.elements<float>().subspan(row * columns, columns);
    float greatest = 1e-6F;
    for (const float element : elements) greatest = std::max(greatest, std::fabs(element));
    scale.elements<float>()[row] = greatest / 127;
    for (std::size_t column = 0; column < columns; ++column) {
      small.elements<std::int8_t>()[row * columns + column] =
          static_cast<std::int8_t>(std::lrint(elements[column] / greatest * 127));
    }
  }
  const auto add_weight = [&](const std::string& name, const Tensor& tensor) {
    ir::Value value;
    value.name = name;
    value.tensor.dtype = tensor.dtype();
    for (const std::int64_t dim : tensor.dims()) value.tensor.dims.emplace_back(dim);
    value.tensor.strides = {ir::Expr(tensor.dims()[1]), ir::Expr(1)};
    const ir::ValueId id = model.graph.add_value(std::move(value));
    model.graph.inputs.push_back({ir::InputKind::kConstant, id, name, true, {}});
    model.weights.emplace(name, tensor);
    return id;
  };
  const ir::ValueId small_id = add_weight("quantized", small);
  const ir::ValueId scale_id = add_weight("quantized_scale", scale);
  const ir::TensorType like = model.graph.at(*argument_of(node_named(model, "linear_4"), "weight").value_id()).tensor;
  const std::size_t place = index_of_node(model, "linear_4");
  const ir::ValueId wide =
      insert_node(model, place, "aten.to.dtype", {{"self", {small_id}}, {"dtype", {DType::kFloat32}}}, like);
  const ir::ValueId scaled = insert_node(model, place + 1, inverted ? "aten.div.Tensor" : "aten.mul.Tensor",
                                         {{"self", {wide}}, {"other", {scale_id}}}, like);
  argument_of(node_named(model, "linear_4"), "weight").value = scaled;
}

// A value through bfloat16 and back on its way into a node.
void round_input(ImportedModel& model, const std::string& node, const std::string& argument) {
  const ir::ValueId from = *argument_of(node_named(model, node), argument).value_id();
  const ir::TensorType like = model.graph.at(from).tensor;
  const std::size_t place = index_of_node(model, node);
  const ir::ValueId narrow =
      insert_node(model, place, "aten.to.dtype", {{"self", {from}}, {"dtype", {DType::kBFloat16}}}, like);
  model.graph.at(narrow).tensor.dtype = DType::kBFloat16;
  const ir::ValueId back =
      insert_node(model, place + 1, "aten.to.dtype", {{"self", {narrow}}, {"dtype", {DType::kFloat32}}}, like);
  argument_of(node_named(model, node), argument).value = back;
}

void swap_query_and_key(ImportedModel& model) {
  ir::Node& node = node_named(model, "scaled_dot_product_attention_1");
  std::swap(argument_of(node, "query").value, argument_of(node, "key").value);
}

// The heads laid out as if the axes had been swapped already.
void skip_transpose(ImportedModel& model) {
  argument_of(node_named(model, "reshape"), "self").value = value_named(model.graph, "scaled_dot_product_attention");
}

void use_weight_of(ImportedModel& model, const std::string& node, const std::string& other) {
  argument_of(node_named(model, node), "weight") = argument_of(node_named(model, other), "weight");
}

void spoil_with_nan(ImportedModel& model) {
  own_weight(model, "linear_9", "bias").elements<float>()[5] = std::nanf("");
}

}  // namespace

// Position ids count up, as in a real model: a slice of equal numbers could hide a fault.
ImportedModel make_small_bert(std::uint64_t seed) {
  ImportedModel model = execution_test::make_bert(seed);
  for (auto& [name, weight] : model.weights) {
    // Norms near 1 hand on what comes in; with small weights the outputs would hardly feel a fault inside.
    if (weight.dtype() == DType::kFloat32 && name.ends_with("LayerNorm.weight")) {
      for (float& value : weight.elements<float>()) value += 1;
    }
    if (weight.dtype() != DType::kInt64) continue;
    for (std::size_t index = 0; std::cmp_less(index, weight.element_count()); ++index) {
      weight.elements<std::int64_t>()[index] =
          name.find("position") != std::string::npos ? static_cast<std::int64_t>(index) : 0;
    }
  }
  return model;
}

ir::Node& node_named(ImportedModel& model, const std::string& name) {
  return model.graph.nodes.at(index_of_node(model, name));
}

std::size_t index_of_node(const ImportedModel& model, const std::string& name) {
  const auto found = std::ranges::find(model.graph.nodes, name, &ir::Node::name);
  return static_cast<std::size_t>(found - model.graph.nodes.begin());
}

ir::Argument& argument_of(ir::Node& node, const std::string& name) {
  const auto found = std::ranges::find(node.arguments, name, &ir::NamedArgument::name);
  if (found != node.arguments.end()) return found->value;
  return node.arguments.emplace_back(ir::NamedArgument{name, {}}).value;
}

ir::ValueId value_named(const ir::Graph& graph, const std::string& name) {
  const auto found = std::ranges::find(graph.values, name, &ir::Value::name);
  return ir::ValueId{static_cast<std::uint32_t>(found - graph.values.begin())};
}

ir::ValueId insert_node(ImportedModel& model, std::size_t index, const std::string& target,
                        std::vector<ir::NamedArgument> arguments, const ir::TensorType& like) {
  ir::Value value;
  value.name = fmt::format("inserted_{}", model.graph.values.size());
  value.tensor = like;
  ir::Node node;
  node.name = value.name;
  node.target = target;
  node.arguments = std::move(arguments);
  const ir::ValueId id = model.graph.add_value(std::move(value));
  node.outputs = {{false, {id}}};
  model.graph.nodes.insert(model.graph.nodes.begin() + static_cast<std::ptrdiff_t>(index), std::move(node));
  return id;
}

void split_linears(ImportedModel& model) {
  for (std::size_t index = 0; index < model.graph.nodes.size(); ++index) {
    if (model.graph.nodes[index].target != "aten.linear.default") continue;
    const ir::Argument input = argument_of(model.graph.nodes[index], "input");
    const ir::Argument weight = argument_of(model.graph.nodes[index], "weight");
    const ir::Argument bias = argument_of(model.graph.nodes[index], "bias");
    const ir::ValueId* bias_id = bias.value_id();
    if (bias_id == nullptr) continue;
    ir::TensorType turned = model.graph.at(*weight.value_id()).tensor;
    std::swap(turned.dims[0], turned.dims[1]);
    const ir::TensorType result = model.graph.at(model.graph.nodes[index].outputs[0].values[0]).tensor;
    const ir::ValueId transposed = insert_node(model, index, "aten.t.default", {{"self", weight}}, turned);
    const ir::ValueId product =
        insert_node(model, index + 1, "aten.matmul.default", {{"self", input}, {"other", {transposed}}}, result);
    ir::Node& sum = model.graph.nodes[index + 2];
    sum.target = "aten.add.Tensor";
    sum.arguments = {{"self", {product}}, {"other", bias}};
    index += 2;
  }
}

std::vector<Fault> list_faults() {
  const auto wrong_bias = [](ImportedModel& model) {
    own_weight(model, "linear_4", "bias").elements<float>()[7] += 0.01F;
  };
  const auto stale = [](ImportedModel& model) { use_weight_of(model, "linear_8", "linear_2"); };
  return {
      {"a wrong constant in a bias", "linear_4", wrong_bias, {}, {}},
      {"a swapped axis", "reshape", skip_transpose, {}, {}},
      {"an inverted int8 scale", "linear_4", [](ImportedModel& model) { quantize(model, true); }, Level::kAggressive,
       [](ImportedModel& model) { quantize(model, false); }},
      {"a dropped mask",
       "scaled_dot_product_attention",
       set_argument("scaled_dot_product_attention", "attn_mask", {ir::None{}}),
       {},
       {}},
      {"a wrong epsilon", "layer_norm_1", set_argument("layer_norm_1", "eps", {1e-3}), {}, {}},
      {"tanh GELU for the exact one", "gelu", set_argument("gelu", "approximate", {std::string("tanh")}), {}, {}},
      {"ReLU for GELU",
       "gelu_1",
       [](ImportedModel& model) { node_named(model, "gelu_1").target = "aten.relu.default"; },
       {},
       {}},
      {"a dropped residual",
       "layer_norm_3",
       [](ImportedModel& model) {
         argument_of(node_named(model, "layer_norm_3"), "input").value = value_named(model.graph, "linear_9");
       },
       {},
       {}},
      {"a transposed weight", "linear", transpose_query_weight, {}, {}},
      {"a wrong scale of attention",
       "scaled_dot_product_attention_1",
       set_argument("scaled_dot_product_attention_1", "scale", {1.0 / 12}),
       {},
       {}},
      {"a stale weight", "linear_8", stale, {}, {}},
      {"a slice that is off by one",
       "slice_1",
       [](ImportedModel& model) {
         argument_of(node_named(model, "slice_1"), "start").value = std::int64_t{1};
         argument_of(node_named(model, "slice_1"), "end").value = std::int64_t{10};
       },
       {},
       {}},
      {"bfloat16 where it is forbidden",
       "layer_norm_2",
       [](ImportedModel& model) { round_input(model, "layer_norm_2", "input"); },
       {},
       {}},
      {"a dropped bias", "linear_12", set_argument("linear_12", "bias", {ir::None{}}), {}, {}},
      {"query and key swapped", "scaled_dot_product_attention_1", swap_query_and_key, {}, {}},
      {"NaN in one element", "linear_9", spoil_with_nan, {}, {}},
      {"the wrong row selected", "select", set_argument("select", "index", {std::int64_t{1}}), {}, {}},
  };
}

}  // namespace kpt::validation_test
