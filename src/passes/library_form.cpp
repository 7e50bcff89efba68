#include "passes/library_form.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "passes/graph_edit.h"
#include "passes/node_arguments.h"
#include "passes/own_calls.h"

namespace kpt {
namespace {

// The call of aten for an activation, but for its `self`.
struct ActivationCall {
  std::string_view target;
  std::vector<ir::NamedArgument> options = {};
};

ActivationCall activation_call(ir::Activation activation) {
  switch (activation) {
    case ir::Activation::kNone: return {""};
    case ir::Activation::kRelu: return {"aten.relu.default"};
    case ir::Activation::kGelu: return {"aten.gelu.default"};
    case ir::Activation::kGeluTanh: return {"aten.gelu.default", {{"approximate", {std::string("tanh")}}}};
    case ir::Activation::kSilu: return {"aten.silu.default"};
    case ir::Activation::kSigmoid: return {"aten.sigmoid.default"};
    case ir::Activation::kTanh: return {"aten.tanh.default"};
    case ir::Activation::kHardswish: return {"aten.hardswish.default"};
    case ir::Activation::kHardsigmoid: return {"aten.hardsigmoid.default"};
    case ir::Activation::kRelu6: return {"aten.hardtanh.default", {{"min_val", {0.0}}, {"max_val", {6.0}}}};
  }
  return {""};
}

bool is_real(DType dtype) { return dtype == DType::kFloat32 || dtype == DType::kBFloat16; }

// A product with a bfloat16 weight between tensors of float32: casts around aten's product of bfloat16 give the same
// but for one rounding of the result.
bool is_product_between_casts(const ir::Graph& graph, const ir::Node& node) {
  if (node.target != kLinearTarget) return false;
  const auto dtype = [&](ir::ValueId id) { return graph.at(id).tensor.dtype; };
  const LinearCall call = read_linear(node);
  const ir::ValueId result = only_result(node);
  if (dtype(call.weight) != DType::kBFloat16 || !is_real(dtype(call.input)) || !is_real(dtype(result))) return false;
  return (call.bias == ir::kNoValue || is_real(dtype(call.bias))) &&
         (call.residual == ir::kNoValue || dtype(call.residual) == dtype(result));
}

// All tensors that the node reads and makes are of one type of element.
bool is_of_one_type(const ir::Graph& graph, const ir::Node& node) {
  std::set<DType> types;
  const auto add = [&](ir::ValueId id) {
    if (id != ir::kNoValue && graph.at(id).kind == ir::ValueKind::kTensor) types.insert(graph.at(id).tensor.dtype);
  };
  for (const ir::NamedArgument& argument : node.arguments) ir::for_each_value(argument.value, add);
  for (const ir::Output& output : node.outputs) {
    for (const ir::ValueId id : output.values) add(id);
  }
  return types.size() == 1;
}

// What write() takes for granted. A file may hold one of our calls without it.
bool is_whole_call(const ir::Graph& graph, const ir::Node& node) {
  const auto rank = [&](ir::ValueId id) {
    return id == ir::kNoValue || graph.at(id).kind != ir::ValueKind::kTensor ? 0 : graph.at(id).tensor.dims.size();
  };
  const auto has = [&](std::initializer_list<const char*> names) {
    return std::ranges::all_of(names, [&](const char* name) { return find_argument(node, name) != nullptr; });
  };
  const auto argument = [&](const char* name) { return rank(value_argument(node, name)); };
  if (rank(result_at(node, 0)) == 0) return false;
  if (node.target == kLinearTarget) return argument("input") > 0 && argument("weight") == 2;
  if (node.target == kConv2dTarget) return has({"input", "weight", "bias", "stride", "padding", "dilation", "groups"});
  if (node.target == kAddNormTarget) return argument("input") > 0 && has({"epsilon"});
  return argument("query") == 4 && argument("key") == 4 && argument("value") == 4 && has({"scale"}) &&
         bool_argument(node, "causal", false).has_value();
}

class LibraryForm {
 public:
  LibraryForm(GraphEdit& edit, NodeIndex index) : edit_(edit), index_(index), node_(edit.node(index)) {}

  void write() {
    if (node_.target == kLinearTarget) {
      write_linear();
    } else if (node_.target == kConv2dTarget) {
      write_conv();
    } else if (node_.target == kAttentionTarget) {
      write_attention();
    } else {
      write_add_norm();
    }
  }

 private:
  // A call in front of the node; its result.
  ir::ValueId insert(const std::string& target, std::vector<ir::NamedArgument> arguments, ir::TensorType type) {
    const ir::ValueId result = edit_.add_value(node_.name + "_" + std::string(operator_name(target)), std::move(type));
    edit_.insert_before(index_, make_node(edit_.graph().at(result).name, target, std::move(arguments), result));
    return result;
  }

  // The value in a type of element, cast in front of the node where it is of another.
  ir::ValueId in_type(ir::ValueId id, DType dtype) {
    if (edit_.type(id).dtype == dtype) return id;
    return insert("aten.to.dtype",
                  {{"self", {id}}, {"dtype", {dtype}}, {"memory_format", {ir::MemoryFormat::kContiguous}}},
                  contiguous_type(dtype, edit_.type(id).dims));
  }

  // `product` of `computed` numbers, cast to the result's type, the residual added and the activation applied, the last
  // of these calls in the node's place.
  void write_product(std::string target, std::vector<ir::NamedArgument> arguments, DType computed) {
    const ir::TensorType type = edit_.type(only_result(node_));
    if (computed != type.dtype) {
      const ir::ValueId product = insert(target, std::move(arguments), contiguous_type(computed, type.dims));
      target = "aten.to.dtype";
      arguments = {{"self", {product}}, {"dtype", {type.dtype}}};
    }
    const ir::ValueId residual = value_argument(node_, "residual");
    const ActivationCall activation = activation_call(
        ir::find_activation(string_argument(node_, "activation", "none")).value_or(ir::Activation::kNone));
    if (residual != ir::kNoValue) {
      const ir::ValueId product = insert(target, std::move(arguments), type);
      target = "aten.add.Tensor";
      arguments = {{"self", {product}}, {"other", {residual}}};
    }
    if (!activation.target.empty()) {
      const ir::ValueId sum = insert(target, std::move(arguments), type);
      target = activation.target;
      arguments = {{"self", {sum}}};
      arguments.insert(arguments.end(), activation.options.begin(), activation.options.end());
    }
    edit_.replace_call(index_, std::move(target), std::move(arguments));
  }

  void write_linear() {
    const LinearCall call = read_linear(node_);
    const DType dtype = edit_.type(call.weight).dtype;
    std::vector<ir::NamedArgument> arguments = {{"input", {in_type(call.input, dtype)}}, {"weight", {call.weight}}};
    if (call.bias != ir::kNoValue) arguments.push_back({"bias", {in_type(call.bias, dtype)}});
    write_product("aten.linear.default", std::move(arguments), dtype);
  }

  void write_conv() {
    std::vector<ir::NamedArgument> arguments;
    for (const char* name : {"input", "weight", "bias", "stride", "padding", "dilation", "groups"}) {
      arguments.push_back({name, *find_argument(node_, name)});
    }
    write_product("aten.conv2d.default", std::move(arguments), edit_.type(only_result(node_)).dtype);
  }

  // Aten gives [B, H, S, D]; ours is [B, S, H, D].
  void write_attention() {
    const ir::ValueId query = value_argument(node_, "query");
    std::vector<ir::NamedArgument> arguments = {{"query", {query}},
                                                {"key", *find_argument(node_, "key")},
                                                {"value", *find_argument(node_, "value")},
                                                {"attn_mask", value_or_none(value_argument(node_, "mask"))},
                                                {"dropout_p", {0.0}},
                                                {"is_causal", {bool_argument(node_, "causal", false).value()}},
                                                {"scale", *find_argument(node_, "scale")}};
    const std::vector<ir::Expr> dims = edit_.type(query).dims;
    const DType dtype = edit_.type(query).dtype;
    if (edit_.type(value_argument(node_, "key")).dims[1] != dims[1]) arguments.push_back({"enable_gqa", {true}});
    const std::vector<ir::Expr> heads_first = {dims[0], dims[1], dims[2], dims[3]};
    const ir::ValueId result =
        insert("aten.scaled_dot_product_attention.default", std::move(arguments), contiguous_type(dtype, heads_first));
    ir::TensorType swapped = contiguous_type(dtype, heads_first);
    std::swap(swapped.dims[1], swapped.dims[2]);
    std::swap(swapped.strides[1], swapped.strides[2]);
    const ir::ValueId view =
        insert("aten.transpose.int", {{"self", {result}}, {"dim0", {std::int64_t{1}}}, {"dim1", {std::int64_t{2}}}},
               std::move(swapped));
    edit_.replace_call(index_, "aten.clone.default",
                       {{"self", {view}}, {"memory_format", {ir::MemoryFormat::kContiguous}}});
  }

  void write_add_norm() {
    const ir::ValueId normed = result_at(node_, 0);
    const ir::ValueId sum = result_at(node_, 1);
    ir::ValueId input = value_argument(node_, "input");
    const ir::ValueId residual = value_argument(node_, "residual");
    if (residual != ir::kNoValue) {
      input = insert("aten.add.Tensor", {{"self", {input}}, {"other", {residual}}}, edit_.type(normed));
    }
    std::vector<ir::NamedArgument> arguments = {
        {"input", {input}},
        {"normalized_shape", ints({*constant_dim(edit_.type(normed), edit_.type(normed).dims.size() - 1)})}};
    for (const char* name : {"weight", "bias"}) {
      if (const ir::ValueId id = value_argument(node_, name); id != ir::kNoValue) arguments.push_back({name, {id}});
    }
    arguments.push_back({"eps", *find_argument(node_, "epsilon")});
    const ir::ValueId result = insert("aten.layer_norm.default", std::move(arguments), edit_.type(normed));
    edit_.replace_uses(normed, result);
    if (sum != ir::kNoValue) edit_.replace_uses(sum, input);
    edit_.erase_unused(index_);
  }

  GraphEdit& edit_;
  NodeIndex index_;
  ir::Node node_;  // as it was
};

void fix_type(ir::TensorType& type, const ir::Bindings& sizes, Status& status) {
  const auto fix = [&](ir::Expr& expression) {
    const auto value = expression.evaluate(sizes);
    if (value.ok()) {
      expression = ir::Expr(*value);
    } else if (status.ok()) {
      status = value.status();
    }
  };
  for (ir::Expr& dim : type.dims) fix(dim);
  for (ir::Expr& stride : type.strides) fix(stride);
  fix(type.storage_offset);
}

}  // namespace

NodeModel isolate_node(const ir::Graph& graph, const ConstantWeights& constants, const ir::Node& node) {
  NodeModel alone;
  std::map<std::uint32_t, ir::ValueId> known;
  const auto take = [&](ir::ValueId id, const std::string& argument) {
    if (const auto found = known.find(ir::index_of(id)); found != known.end()) return found->second;
    ir::Value value = graph.at(id);
    value.name = "a_" + argument;
    value.tensor.requires_grad = false;
    const Tensor* constant = constants.find(id);
    const std::string name = value.name;
    const ir::ValueId copy = alone.graph.add_value(std::move(value));
    const ir::InputKind kind = constant != nullptr ? ir::InputKind::kConstant : ir::InputKind::kUser;
    alone.graph.inputs.push_back({kind, copy, name, true, {}});
    if (constant != nullptr) alone.weights.emplace(name, *constant);
    known.emplace(ir::index_of(id), copy);
    return copy;
  };
  ir::Node copy = node;
  copy.name = "node";
  for (ir::NamedArgument& argument : copy.arguments) {
    if (const ir::ValueId* id = argument.value.value_id()) argument.value = {take(*id, argument.name)};
  }
  for (std::size_t index = 0; index < copy.outputs.size(); ++index) {
    if (result_at(copy, index) == ir::kNoValue) continue;
    ir::ValueId& id = copy.outputs[index].values[0];
    ir::Value value = graph.at(id);
    value.name = fmt::format("r{}", index);
    const std::string name = value.name;
    id = alone.graph.add_value(std::move(value));
    alone.graph.outputs.push_back({ir::OutputKind::kUser, {id}, name});
  }
  alone.graph.nodes.push_back(std::move(copy));
  std::set<std::string> symbols;
  for (const ir::Value& value : alone.graph.values) {
    for (const auto* list : {&value.tensor.dims, &value.tensor.strides}) {
      for (const ir::Expr& expression : *list) {
        for (const std::string& symbol : expression.symbols()) symbols.insert(symbol);
      }
    }
  }
  for (const ir::SymbolRange& range : graph.symbols) {
    if (symbols.contains(range.name)) alone.graph.symbols.push_back(range);
  }
  return alone;
}

Status fix_sizes(ir::Graph& graph, const ir::Bindings& sizes) {
  Status status;
  for (ir::Value& value : graph.values) fix_type(value.tensor, sizes, status);
  graph.symbols.clear();
  return status;
}

Support has_library_form(const ir::Graph& graph, const ir::Node& node) {
  if (!is_any(node, {kLinearTarget, kConv2dTarget, kAttentionTarget, kAddNormTarget})) {
    return {false, "aten has no such operator"};
  }
  if (!is_whole_call(graph, node)) return {false, "its arguments are not those that we write"};
  if (node.target == kAttentionTarget) {
    const ir::ValueId mask = value_argument(node, "mask");
    if (mask != ir::kNoValue && graph.at(mask).tensor.dtype == DType::kBool) {
      return {false, "aten gives nan for rows that may look nowhere"};
    }
    if (mask != ir::kNoValue && bool_argument(node, "causal", false).value_or(false)) {
      return {false, "aten takes no mask beside a causal one"};
    }
  }
  if (node.target == kConv2dTarget &&
      ints_argument(node, "padding").value_or(std::vector<std::int64_t>{}).size() != 2) {
    return {false, "aten pads both ends alike"};
  }
  if (node.target == kAddNormTarget) {
    if (string_argument(node, "kind", "") != "layer") return {false, "aten has no kernel for it, only a composition"};
    const ir::ValueId normed = result_at(node, 0);
    const auto& dims = graph.at(normed).tensor.dims;
    if (dims.empty() || !dims.back().constant()) return {false, "its last extent is not fixed"};
  }
  if (!is_of_one_type(graph, node) && !is_product_between_casts(graph, node)) {
    return {false, "aten mixes no types in this operator"};
  }
  return {};
}

PassStats use_library_forms(ir::Graph& graph, Weights& weights, const std::vector<std::string>& nodes) {
  PassStats stats;
  GraphEdit edit(graph, weights);
  const std::size_t count = edit.size();
  for (NodeIndex index = 0; index < count; ++index) {
    const std::string name = edit.node(index).name;
    if (std::ranges::find(nodes, name) == nodes.end()) continue;
    const Support support = has_library_form(graph, edit.node(index));
    if (!support.supported) {
      stats.details.push_back(fmt::format("{} stays ours: {}", name, support.reason));
      continue;
    }
    LibraryForm(edit, index).write();
    ++stats.changes;
    stats.details.push_back(name);
  }
  return stats;
}

}  // namespace kpt
