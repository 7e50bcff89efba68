#include "ir/figures.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string_view>

#include "ir/own_operators.h"

namespace kpt::ir {
namespace {

std::optional<double> count(const Graph& graph, ValueId id, const Bindings& symbols) {
  double product = 1;
  for (const Expr& dim : graph.at(id).tensor.dims) {
    const auto size = dim.evaluate(symbols);
    if (!size.ok()) return std::nullopt;
    product *= static_cast<double>(*size);
  }
  return product;
}

std::optional<double> size_at(const Graph& graph, ValueId id, std::int64_t axis, const Bindings& symbols) {
  const auto& dims = graph.at(id).tensor.dims;
  const auto rank = static_cast<std::int64_t>(dims.size());
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank) return std::nullopt;
  const auto size = dims[static_cast<std::size_t>(axis)].evaluate(symbols);
  if (!size.ok()) return std::nullopt;
  return static_cast<double>(*size);
}

// Arguments of our own operators are found by their names, in whatever order they stand.
const ValueId* tensor_argument(const Node& node, std::size_t position) {
  if (const OwnOperator* own = find_own_operator(node.target)) {
    for (const NamedArgument& argument : node.arguments) {
      if (position < own->arguments.size() && argument.name == own->arguments[position]) {
        return argument.value.value_id();
      }
    }
    return nullptr;
  }
  return position < node.arguments.size() ? node.arguments[position].value.value_id() : nullptr;
}

std::optional<ValueId> first_result(const Graph& graph, const Node& node) {
  if (node.outputs.empty() || node.outputs[0].values.empty()) return std::nullopt;
  const ValueId id = node.outputs[0].values[0];
  if (id == kNoValue || graph.at(id).kind != ValueKind::kTensor) return std::nullopt;
  return id;
}

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// "aten.linear.default", "kpt.linear.default" → "linear"
std::string_view base_name(std::string_view target) {
  if (!target.starts_with("aten.") && !target.starts_with(kOwnPrefix)) return target;
  target.remove_prefix(target.find('.') + 1);
  return target.substr(0, target.find('.'));
}

// Of the convolutions that go from the output's places to the input's: conv_transpose*, and `transposed` of
// convolution.
bool is_transposed(const Node& node, std::string_view name) {
  if (name.starts_with("conv_transpose")) return true;
  constexpr std::size_t kTransposed = 6;  // input, weight, bias, stride, padding, dilation, transposed
  for (std::size_t position = 0; position < node.arguments.size(); ++position) {
    const NamedArgument& argument = node.arguments[position];
    if (argument.name.empty() ? name != "convolution" || position != kTransposed : argument.name != "transposed") {
      continue;
    }
    const bool* transposed = std::get_if<bool>(&argument.value.value);
    return transposed != nullptr && *transposed;
  }
  return false;
}

// Each element of the output is a sum over one filter; of a transposed one, each of the input goes through one.
std::optional<double> count_convolution(const Graph& graph, const Node& node, std::string_view name, double elements,
                                        const Bindings& symbols) {
  const ValueId* input = tensor_argument(node, 0);
  const ValueId* weight = tensor_argument(node, 1);
  if (input == nullptr || weight == nullptr) return std::nullopt;
  const auto times = is_transposed(node, name) ? count(graph, *input, symbols) : std::optional(elements);
  const auto weights = count(graph, *weight, symbols);
  const auto filters = size_at(graph, *weight, 0, symbols);
  if (!times || !weights || !filters || *filters == 0) return std::nullopt;
  return 2 * *times * (*weights / *filters);
}

std::string_view classify(std::string_view name) {
  if (is_one_of(name, {"linear", "linear_int8", "linear_weight_int8", "linear_fp8", "linear_fp8_e5m2", "linear_int4",
                       "mm", "bmm", "addmm", "baddbmm", "matmul", "_scaled_mm"})) {
    return "matmul";
  }
  if (name.starts_with("conv")) return "convolution";
  if (name.starts_with("higher_order.")) return "control";
  if (name == "attention" || name.find("scaled_dot_product") != std::string_view::npos) return "attention";
  // Views and sizes cost nothing.
  if (is_one_of(name, {"view",         "reshape",  "permute",   "transpose",  "t",         "expand",
                       "unsqueeze",    "squeeze",  "slice",     "select",     "split",     "split_with_sizes",
                       "chunk",        "unbind",   "alias",     "detach",     "flatten",   "unflatten",
                       "_unsafe_view", "sym_size", "sym_numel", "contiguous", "as_strided"})) {
    return "view";
  }
  return "pointwise";
}

std::optional<double> count_flops(const Graph& graph, const Node& node, std::string_view kind, std::string_view name,
                                  const Bindings& symbols) {
  if (kind == "view" || kind == "control") return 0;
  const auto result = first_result(graph, node);
  if (!result) return 0;
  const auto elements = count(graph, *result, symbols);
  if (!elements) return std::nullopt;
  if (kind == "matmul") {
    const bool biased = is_one_of(name, {"addmm", "baddbmm"});
    const ValueId* left = tensor_argument(node, biased ? 1 : 0);
    if (left == nullptr) return std::nullopt;
    const auto inner = size_at(graph, *left, -1, symbols);
    return inner ? std::optional(2 * *elements * *inner) : std::nullopt;
  }
  if (kind == "convolution") return count_convolution(graph, node, name, *elements, symbols);
  if (kind == "attention") {
    const ValueId* query = tensor_argument(node, 0);
    const ValueId* key = tensor_argument(node, 1);
    if (query == nullptr || key == nullptr) return std::nullopt;
    const auto queries = count(graph, *query, symbols);
    const auto width = size_at(graph, *query, -1, symbols);
    const auto keys = size_at(graph, *key, -2, symbols);
    if (!queries || !width || !keys || *width == 0) return std::nullopt;
    // Scores, and their product with the values; the values' width is the result's.
    return 2 * *queries * *keys + 2 * *elements * *keys;
  }
  return elements;
}

std::optional<double> bytes_of(const Graph& graph, ValueId id, const Bindings& symbols) {
  if (id == kNoValue || graph.at(id).kind != ValueKind::kTensor) return 0;
  const auto elements = count(graph, id, symbols);
  if (!elements) return std::nullopt;
  return *elements * static_cast<double>(element_bytes(graph.at(id).tensor.dtype));
}

std::optional<double> count_bytes(const Graph& graph, const Node& node, std::string_view kind, std::string_view name,
                                  const Bindings& symbols) {
  if (kind == "view") return 0;
  const bool looks_up = is_one_of(name, {"embedding", "index", "index_select", "gather"});
  std::set<ValueId> used;
  for (std::size_t position = 0; position < node.arguments.size(); ++position) {
    if (looks_up && position == 0) continue;  // the table
    for_each_value(node.arguments[position].value, [&](ValueId id) { used.insert(id); });
  }
  std::set<ValueId> made;
  for (const Output& output : node.outputs) made.insert(output.values.begin(), output.values.end());
  double bytes = 0;
  for (const ValueId id : used) {
    const auto more = bytes_of(graph, id, symbols);
    if (!more) return std::nullopt;
    bytes += *more;
  }
  for (const ValueId id : made) {
    const auto more = bytes_of(graph, id, symbols);
    if (!more) return std::nullopt;
    bytes += looks_up ? 2 * *more : *more;  // every row that is written was read
  }
  return bytes;
}

}  // namespace

NodeFigures count_node(const Graph& graph, const Node& node, const Bindings& symbols) {
  const std::string_view name = base_name(node.target);
  const std::string_view kind = classify(name);
  return {kind, count_flops(graph, node, kind, name, symbols), count_bytes(graph, node, kind, name, symbols)};
}

namespace {

void add_classes(Figures& figures, const Figures& part) {
  for (const auto& [name, counted] : part.classes) {
    ClassFigures& entry = figures.classes[name];
    entry.nodes += counted.nodes;
    entry.flops += counted.flops;
  }
  figures.flops += part.flops;
}

// Of a condition the branch with more work counts, of a loop what decides and what is repeated.
void add_subgraphs(Figures& figures, const Node& node, const Bindings& symbols) {
  const bool is_loop = node.target == "higher_order.while_loop";
  figures.has_loops = figures.has_loops || is_loop;
  std::optional<Figures> greatest;
  for (const NamedArgument& argument : node.arguments) {
    const auto* const inner = std::get_if<Subgraph>(&argument.value.value);
    if (inner == nullptr || inner->graph == nullptr) continue;
    Figures part = count_figures(*inner->graph, symbols);
    for (const auto& [target, nodes] : part.histogram) figures.histogram[target] += nodes;
    figures.nodes += part.nodes;
    figures.has_loops = figures.has_loops || part.has_loops;
    if (is_loop) {
      add_classes(figures, part);
    } else if (!greatest || part.flops > greatest->flops) {
      greatest = std::move(part);
    }
  }
  if (greatest) add_classes(figures, *greatest);
}

}  // namespace

Figures count_figures(const Graph& graph, const Bindings& symbols) {
  Figures figures;
  for (const Node& node : graph.nodes) {
    ++figures.histogram[node.target];
    ++figures.nodes;
    const NodeFigures counted = count_node(graph, node, symbols);
    ClassFigures& entry = figures.classes[std::string(counted.kind)];
    ++entry.nodes;
    entry.flops += counted.flops.value_or(0);
    figures.flops += counted.flops.value_or(0);
    add_subgraphs(figures, node, symbols);
  }
  return figures;
}

}  // namespace kpt::ir
