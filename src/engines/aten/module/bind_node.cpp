#include <algorithm>

#include <ATen/core/jit_type.h>
#include <fmt/format.h>

#include "device/unsupported_nodes.h"
#include "engines/aten/module/compiled_graph.h"
#include "engines/aten/module/replaced_nodes.h"
#include "engines/aten/module/tensors.h"

namespace kpt::aten {
namespace {

Status unsupported(std::string reason) { return {StatusCode::kUnsupported, std::move(reason)}; }

struct OperatorParts {
  std::string name;  // "aten::linear"
  std::string overload;
};

// "aten.linear.default" → {"aten::linear", ""}. Custom namespaces have the same form.
std::optional<OperatorParts> split_target(std::string_view target) {
  const auto first = target.find('.');
  if (first == std::string_view::npos) return std::nullopt;
  const auto last = target.rfind('.');
  if (last == first) return std::nullopt;
  OperatorParts parts;
  parts.name = fmt::format("{}::{}", target.substr(0, first), target.substr(first + 1, last - first - 1));
  parts.overload = target.substr(last + 1);
  if (parts.overload == "default") parts.overload.clear();
  return parts;
}

// A model file is foreign: it reaches libtorch's own operators, and of these none that open files or give a tensor
// memory that was never checked.
Result<c10::OperatorHandle> find_operator(std::string_view target) {
  constexpr std::string_view kRefused[] = {
      "aten::from_file",        "aten::set_",       "aten::set",    "aten::set_data",
      "aten::resize_",          "aten::resize_as_", "aten::resize", "aten::_resize_output_",
      "aten::resize_as_sparse_"};
  const auto parts = split_target(target);
  if (!parts) return unsupported("no operator of libtorch has this name");
  if (!target.starts_with("aten.")) return unsupported("it is a custom operator; only libtorch's own (aten) can run");
  if (std::find(std::begin(kRefused), std::end(kRefused), parts->name) != std::end(kRefused)) {
    return unsupported("it changes which memory a tensor stands for, which a model file may not");
  }
  auto op = c10::Dispatcher::singleton().findSchema({parts->name, parts->overload});
  if (!op) return unsupported("this libtorch has no such operator");
  for (const c10::Argument& argument : op->schema().arguments()) {
    if (argument.type()->kind() == c10::TypeKind::StorageType) return unsupported("it takes bare memory");
  }
  return *op;
}

std::vector<ResultTarget> result_targets(const ir::Node& node) {
  std::vector<ResultTarget> targets;
  for (const ir::Output& output : node.outputs) {
    ResultTarget& target = targets.emplace_back();
    target.is_list = output.is_list;
    for (const ir::ValueId id : output.values) {
      target.slots.push_back(id == ir::kNoValue ? -1 : static_cast<std::int64_t>(ir::index_of(id)));
    }
  }
  return targets;
}

Result<Step> bind_number_node(const ir::Node& node, const NumberOperator& number, BindingContext& context) {
  Step step;
  step.kind = Step::Kind::kNumber;
  step.number = number.function;
  if (std::cmp_not_equal(node.arguments.size(), number.arity)) {
    return unsupported(fmt::format("it is given {} arguments and takes {}", node.arguments.size(), number.arity));
  }
  for (const ir::NamedArgument& argument : node.arguments) {
    if (const ir::ValueId* id = argument.value.value_id()) {
      if (context.graph.at(*id).kind == ir::ValueKind::kTensor) return unsupported("it is given a tensor for a number");
      step.arguments.push_back(
          {.kind = ArgumentSource::Kind::kSlot, .constant = {}, .slot = ir::index_of(*id), .items = {}});
      continue;
    }
    const auto bound = bind_argument(argument.value, c10::NumberType::get(), context);
    if (!bound.ok()) return unsupported(bound.status().message());
    step.arguments.push_back(*bound);
  }
  return step;
}

// The sub-graph at `position` of the node, bound.
Result<std::unique_ptr<CompiledGraph>> bind_body(const ir::Node& node, std::size_t position,
                                                 const BindingContext& context) {
  if (position >= node.arguments.size()) return unsupported("a sub-graph is missing");
  const auto* body = std::get_if<ir::Subgraph>(&node.arguments[position].value.value);
  if (body == nullptr || body->graph == nullptr) {
    return unsupported(fmt::format("its argument {} is no sub-graph", position));
  }
  auto compiled = CompiledGraph::compile(*body->graph, context.device, false, context.policy);
  if (!compiled.ok()) return unsupported(std::string(kInsideIt) + compiled.status().message());
  return compiled;
}

// Values that a sub-graph takes, from a list argument.
Status append_operands(const ir::Node& node, std::size_t position, BindingContext& context,
                       std::vector<ArgumentSource>* operands) {
  if (position >= node.arguments.size()) return {};
  const ir::List* list = node.arguments[position].value.list();
  if (list == nullptr) return unsupported(fmt::format("its argument {} is no list", position));
  for (const ir::Argument& item : list->items) {
    if (const ir::ValueId* id = item.value_id()) {
      operands->push_back(
          {.kind = ArgumentSource::Kind::kSlot, .constant = {}, .slot = ir::index_of(*id), .items = {}});
      continue;
    }
    KPT_ASSIGN_OR_RETURN(ArgumentSource bound, bind_argument(item, c10::NumberType::get(), context));
    operands->push_back(std::move(bound));
  }
  return {};
}

std::size_t result_count(const Step& step) {
  std::size_t count = 0;
  for (const ResultTarget& result : step.results) count += result.slots.size();
  return count;
}

// cond(predicate, true graph, false graph, operands)
Result<Step> bind_cond(const ir::Node& node, BindingContext& context) {
  Step step;
  step.kind = Step::Kind::kCond;
  step.results = result_targets(node);
  if (node.arguments.size() != 4) return unsupported("it does not have four arguments");
  if (const ir::ValueId* id = node.arguments[0].value.value_id()) {
    step.arguments.push_back(
        {.kind = ArgumentSource::Kind::kSlot, .constant = {}, .slot = ir::index_of(*id), .items = {}});
  } else {
    KPT_ASSIGN_OR_RETURN(ArgumentSource predicate,
                         bind_argument(node.arguments[0].value, c10::NumberType::get(), context));
    step.arguments.push_back(std::move(predicate));
  }
  for (const std::size_t position : {1U, 2U}) {
    KPT_ASSIGN_OR_RETURN(auto body, bind_body(node, position, context));
    step.bodies.push_back(std::move(body));
  }
  KPT_RETURN_IF_ERROR(append_operands(node, 3, context, &step.arguments));
  for (const auto& body : step.bodies) {
    if (body->graph().inputs.size() != step.arguments.size() - 1 ||
        body->graph().outputs.size() != result_count(step)) {
      return unsupported("a branch takes or gives another number of values than the node");
    }
  }
  return step;
}

// while_loop(condition graph, body graph, carried values, further values)
Result<Step> bind_while(const ir::Node& node, BindingContext& context) {
  Step step;
  step.kind = Step::Kind::kWhile;
  step.results = result_targets(node);
  for (const std::size_t position : {0U, 1U}) {
    KPT_ASSIGN_OR_RETURN(auto body, bind_body(node, position, context));
    step.bodies.push_back(std::move(body));
  }
  KPT_RETURN_IF_ERROR(append_operands(node, 2, context, &step.arguments));
  const std::size_t carried = step.arguments.size();
  KPT_RETURN_IF_ERROR(append_operands(node, 3, context, &step.arguments));
  for (const auto& body : step.bodies) {
    if (body->graph().inputs.size() != step.arguments.size()) {
      return unsupported("a sub-graph takes another number of values than the node gives");
    }
  }
  if (step.bodies[0]->graph().outputs.size() != 1 || step.bodies[1]->graph().outputs.size() != carried ||
      result_count(step) != carried) {
    return unsupported("the loop's values do not match its sub-graphs");
  }
  return step;
}

Result<Step> bind_higher_order(const ir::Node& node, BindingContext& context) {
  if (node.target == "higher_order.cond") return bind_cond(node, context);
  if (node.target == "higher_order.while_loop") return bind_while(node, context);
  return unsupported(
      "this higher-order operator is not offered; exporting under torch.no_grad() or with "
      "run_decompositions() often avoids it");
}

bool has_tensor_argument(const c10::FunctionSchema& schema) {
  for (const c10::Argument& argument : schema.arguments()) {
    const c10::TypePtr& type = argument.type();
    if (type->kind() == c10::TypeKind::TensorType) return true;
    if (type->kind() == c10::TypeKind::ListType) {
      if (type->expectRef<c10::ListType>().getElementType()->kind() == c10::TypeKind::TensorType) return true;
    }
  }
  return false;
}

// A tensor that is made of nothing lies on the CPU unless told otherwise.
void fill_factory_device(const c10::FunctionSchema& schema, at::Device device, Step& step) {
  if (has_tensor_argument(schema)) return;
  for (std::size_t index = 0; index < step.arguments.size(); ++index) {
    const bool absent = step.arguments[index].is_constant() && step.arguments[index].constant.isNone();
    if (schema.arguments()[index].name() == "device" && absent) step.arguments[index].constant = device;
  }
}

// Python's default type decides what torch.full and its kin make when no type is given; the file recorded what it was.
void fill_factory_type(const ir::Graph& graph, const ir::Node& node, const c10::FunctionSchema& schema, Step& step) {
  if (has_tensor_argument(schema) || node.outputs.size() != 1 || node.outputs[0].is_list) return;
  const ir::ValueId id = node.outputs[0].values[0];
  if (id == ir::kNoValue || graph.at(id).kind != ir::ValueKind::kTensor) return;
  for (std::size_t index = 0; index < step.arguments.size(); ++index) {
    const bool absent = step.arguments[index].is_constant() && step.arguments[index].constant.isNone();
    if (schema.arguments()[index].name() == "dtype" && absent) {
      step.arguments[index].constant = static_cast<std::int64_t>(to_scalar_type(graph.at(id).tensor.dtype));
    }
  }
}

// What an operator makes of integers alone is of Python's default type; only float32 is libtorch's own.
bool needs_other_default_type(const ir::Graph& graph, const ir::Node& node, const c10::FunctionSchema& schema) {
  if (!has_tensor_argument(schema) || node.outputs.size() != 1 || node.outputs[0].is_list) return false;
  const ir::ValueId id = node.outputs[0].values[0];
  if (id == ir::kNoValue || graph.at(id).kind != ir::ValueKind::kTensor) return false;
  const DType result = graph.at(id).tensor.dtype;
  if (!is_floating(result) || result == DType::kFloat32) return false;
  bool any_tensor = false;
  bool decided = false;  // by a type that is named or by a float among the arguments
  for (const ir::NamedArgument& argument : node.arguments) {
    decided = decided || std::holds_alternative<DType>(argument.value.value);
    ir::for_each_value(argument.value, [&](ir::ValueId value) {
      if (graph.at(value).kind != ir::ValueKind::kTensor) return;
      any_tensor = true;
      const DType dtype = graph.at(value).tensor.dtype;
      decided = decided || is_floating(dtype) || is_complex(dtype);
    });
  }
  return any_tensor && !decided;
}

Status check_results(const ir::Node& node, const c10::FunctionSchema& schema) {
  if (node.outputs.size() > schema.returns().size()) {
    return unsupported(fmt::format("the file has {} results of it, the operator gives {}", node.outputs.size(),
                                   schema.returns().size()));
  }
  for (std::size_t index = 0; index < node.outputs.size(); ++index) {
    const bool gives_list = schema.returns()[index].type()->kind() == c10::TypeKind::ListType;
    if (gives_list != node.outputs[index].is_list) {
      return unsupported(fmt::format("its result {} is {}a list in the file", index, gives_list ? "not " : ""));
    }
  }
  return {};
}

}  // namespace

Result<Step> bind_node(const ir::Graph& graph, std::uint32_t index, BindingContext& context) {
  const ir::Node& node = graph.nodes[index];
  Step step;
  if (const NumberOperator* number = find_number_operator(node.target)) {
    KPT_ASSIGN_OR_RETURN(step, bind_number_node(node, *number, context));
    if (node.outputs.size() != 1 || node.outputs[0].is_list) return unsupported("it must have one result");
    step.results = result_targets(node);
  } else if (node.target.starts_with(ir::kOwnPrefix)) {
    KPT_ASSIGN_OR_RETURN(step, bind_own_node(graph, node, context));
  } else if (node.target.starts_with("higher_order.")) {
    KPT_ASSIGN_OR_RETURN(step, bind_higher_order(node, context));
  } else {
    KPT_ASSIGN_OR_RETURN(step.op, find_operator(node.target));
    const c10::FunctionSchema& schema = step.op->schema();
    if (needs_other_default_type(graph, node, schema)) {
      return unsupported("it makes floats of integers under another default type than float32");
    }
    KPT_ASSIGN_OR_RETURN(step.arguments, bind_arguments(node.arguments, schema, context));
    KPT_RETURN_IF_ERROR(check_results(node, schema));
    fill_factory_type(graph, node, schema, step);
    fill_factory_device(schema, context.device, step);
    step.results = result_targets(node);
    step.typed = find_replacement(graph, node, context.device);
    if (step.typed != nullptr) step.kind = Step::Kind::kReplaced;
  }
  step.node = index;
  return step;
}

}  // namespace kpt::aten
