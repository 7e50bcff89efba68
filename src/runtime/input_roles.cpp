#include "runtime/input_roles.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace kpt {
namespace {

// A value that holds the input's elements plus a constant.
struct Trace {
  ir::ValueId value = ir::kNoValue;
  std::int64_t offset = 0;
};

struct Evidence {
  std::optional<std::int64_t> below;
  bool mask = false;
  bool additive = false;
};

// "aten.view.default" → "view"
std::string_view operator_of(std::string_view target) {
  if (!target.starts_with("aten.")) return {};
  target.remove_prefix(5);
  return target.substr(0, target.find('.'));
}

bool keeps_elements(std::string_view name) {
  static constexpr std::array<std::string_view, 24> kNames = {
      "view",  "reshape", "_unsafe_view", "slice",   "unsqueeze", "squeeze",         "expand", "to",
      "clone", "alias",   "contiguous",   "detach",  "transpose", "lift_fresh_copy", "select", "flatten",
      "t",     "permute", "_to_copy",     "flatten", "repeat",    "type_as",         "copy",   "unflatten"};
  return std::ranges::find(kNames, name) != kNames.end();
}

bool looks_at_truth(std::string_view name) {
  static constexpr std::array<std::string_view, 12> kNames = {
      "eq", "ne", "lt", "gt", "le", "ge", "logical_not", "logical_and", "logical_or", "rsub", "cumsum", "bitwise_and"};
  return std::ranges::find(kNames, name) != kNames.end();
}

const ir::Argument* find_argument(const ir::Node& node, std::string_view name, std::size_t position) {
  for (const ir::NamedArgument& argument : node.arguments) {
    if (argument.name == name) return &argument.value;
  }
  if (position < node.arguments.size() && node.arguments[position].name.empty()) return &node.arguments[position].value;
  return nullptr;
}

bool is_value(const ir::Argument* argument, ir::ValueId value) {
  return argument != nullptr && argument->value_id() != nullptr && *argument->value_id() == value;
}

std::optional<std::int64_t> extent(const ir::Graph& graph, const ir::Argument* table, std::int64_t dim) {
  const ir::ValueId* id = table != nullptr ? table->value_id() : nullptr;
  if (id == nullptr) return std::nullopt;
  const std::vector<ir::Expr>& dims = graph.at(*id).tensor.dims;
  if (dim < 0) dim += static_cast<std::int64_t>(dims.size());
  if (dim < 0 || dim >= static_cast<std::int64_t>(dims.size())) return std::nullopt;
  return dims[static_cast<std::size_t>(dim)].constant();
}

// How many rows the table has that this node looks up with the value.
std::optional<std::int64_t> find_rows(const ir::Graph& graph, const ir::Node& node, std::string_view name,
                                      ir::ValueId value) {
  if (name == "embedding" && is_value(find_argument(node, "indices", 1), value)) {
    return extent(graph, find_argument(node, "weight", 0), 0);
  }
  if ((name == "index_select" || name == "gather") && is_value(find_argument(node, "index", 2), value)) {
    const ir::Argument* dim = find_argument(node, "dim", 1);
    const auto* number = dim != nullptr ? std::get_if<std::int64_t>(&dim->value) : nullptr;
    return number != nullptr ? extent(graph, find_argument(node, "self", 0), *number) : std::nullopt;
  }
  if (name != "index" && name != "index_put" && name != "index_copy" && name != "index_put_") return std::nullopt;
  if (name == "index_copy") return extent(graph, find_argument(node, "self", 0), 0);
  const ir::Argument* indices = find_argument(node, "indices", 1);
  const ir::List* list = indices != nullptr ? indices->list() : nullptr;
  for (std::size_t dim = 0; list != nullptr && dim < list->items.size(); ++dim) {
    if (is_value(&list->items[dim], value)) {
      return extent(graph, find_argument(node, "self", 0), static_cast<std::int64_t>(dim));
    }
  }
  return std::nullopt;
}

void look_at_node(const ir::Graph& graph, const ir::Node& node, const Trace& trace, Evidence& evidence,
                  std::vector<Trace>& open) {
  const std::string_view name = operator_of(node.target);
  if (const auto rows = find_rows(graph, node, name, trace.value)) {
    const std::int64_t below = *rows - trace.offset;
    if (below > 0) evidence.below = std::min(evidence.below.value_or(below), below);
    return;
  }
  const bool first = !node.arguments.empty() && is_value(&node.arguments[0].value, trace.value);
  const bool floating = is_floating(graph.at(trace.value).tensor.dtype);
  if (looks_at_truth(name)) evidence.mask = true;
  if ((name == "where" && first) || (name == "masked_fill" && is_value(find_argument(node, "mask", 1), trace.value))) {
    evidence.mask = true;
  }
  if (name == "scaled_dot_product_attention" && is_value(find_argument(node, "attn_mask", 3), trace.value)) {
    (floating ? evidence.additive : evidence.mask) = true;
  }
  if (node.outputs.empty() || node.outputs[0].values.empty() || node.outputs[0].values[0] == ir::kNoValue) return;
  if (keeps_elements(name) && first) open.push_back({node.outputs[0].values[0], trace.offset});
  if (name == "add" && first) {
    const ir::Argument* other = find_argument(node, "other", 1);
    const auto* number = other != nullptr ? std::get_if<std::int64_t>(&other->value) : nullptr;
    std::int64_t offset = 0;
    if (number != nullptr && !__builtin_add_overflow(trace.offset, *number, &offset)) {
      open.push_back({node.outputs[0].values[0], offset});
    }
  }
}

bool uses(const ir::Node& node, ir::ValueId value) {
  bool found = false;
  for (const ir::NamedArgument& argument : node.arguments) {
    ir::for_each_value(argument.value, [&](ir::ValueId id) { found = found || id == value; });
  }
  return found;
}

Evidence collect(const ir::Graph& graph, ir::ValueId input) {
  Evidence evidence;
  std::vector<Trace> open = {{input, 0}};
  constexpr std::size_t kBound = 4096;  // of a graph that was made to be long
  for (std::size_t next = 0; next < open.size() && next < kBound; ++next) {
    const Trace trace = open[next];
    for (const ir::Node& node : graph.nodes) {
      if (uses(node, trace.value)) look_at_node(graph, node, trace, evidence, open);
    }
  }
  return evidence;
}

}  // namespace

InputUse find_input_use(const ir::Graph& graph, const ir::GraphInput& input) {
  if (input.value == ir::kNoValue || graph.at(input.value).kind != ir::ValueKind::kTensor) return {};
  const DType dtype = graph.at(input.value).tensor.dtype;
  const Evidence evidence = collect(graph, input.value);
  const bool named_mask = input.name.find("mask") != std::string::npos;
  if (is_floating(dtype)) {
    if (evidence.additive) return {InputRole::kAdditiveMask, {}};
    return {named_mask ? InputRole::kMask : InputRole::kPlain, {}};
  }
  if (!is_integral(dtype)) return {evidence.mask || named_mask ? InputRole::kMask : InputRole::kPlain, {}};
  if (input.name.find("position") != std::string::npos) return {InputRole::kPosition, evidence.below};
  if (evidence.below && !named_mask) return {InputRole::kIndex, evidence.below};
  return {evidence.mask || named_mask ? InputRole::kMask : InputRole::kPlain, {}};
}

}  // namespace kpt
