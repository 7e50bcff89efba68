#include "importer/normalize.h"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/text.h"
#include "importer/autocast.h"

namespace kpt {
namespace {

using ir::ValueId;

constexpr std::array<std::string_view, 3> kDropped = {"aten._assert_tensor_metadata.default",
                                                      "aten.sym_constrain_range.default",
                                                      "aten.sym_constrain_range_for_size.default"};
constexpr std::array<std::string_view, 3> kAliases = {"aten.detach.default", "aten.detach_.default",
                                                      "aten.alias.default"};
constexpr std::array<std::string_view, 8> kDropouts = {"aten.dropout.default",
                                                       "aten.dropout_.default",
                                                       "aten.feature_dropout.default",
                                                       "aten.feature_dropout_.default",
                                                       "aten.alpha_dropout.default",
                                                       "aten.alpha_dropout_.default",
                                                       "aten.feature_alpha_dropout.default",
                                                       "aten.feature_alpha_dropout_.default"};

bool contains(const auto& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// The argument called `name`, or the one at `position` when the call names none.
const ir::Argument* find_argument(const ir::Node& node, std::string_view name, std::size_t position) {
  for (const ir::NamedArgument& argument : node.arguments) {
    if (argument.name == name) return &argument.value;
  }
  const bool positional = position < node.arguments.size() && node.arguments[position].name.empty();
  return positional ? &node.arguments[position].value : nullptr;
}

// Whether a call changes what a tensor looks like, not only what it holds. A detached tensor then is not the same as
// the one it came from.
bool reshapes_in_place(const ir::Graph& graph) {
  constexpr std::array<std::string_view, 9> kNames = {"aten.t_.",          "aten.transpose_.", "aten.squeeze_.",
                                                      "aten.unsqueeze_.",  "aten.swapaxes_.",  "aten.swapdims_.",
                                                      "aten.as_strided_.", "aten.resize_.",    "aten.set_."};
  for (const ir::Node& node : graph.nodes) {
    for (const std::string_view name : kNames) {
      if (node.target.starts_with(name)) return true;
    }
    for (const ir::NamedArgument& argument : node.arguments) {
      const auto* body = std::get_if<ir::Subgraph>(&argument.value.value);
      if (body != nullptr && body->graph != nullptr && reshapes_in_place(*body->graph)) return true;
    }
  }
  return false;
}

// The value that a node hands on unchanged; nothing when it computes.
const ValueId* find_passed_value(const ir::Node& node, bool keep_aliases) {
  if (node.outputs.size() != 1 || node.outputs[0].is_list || node.arguments.empty()) return nullptr;
  if (contains(kAliases, node.target)) return keep_aliases ? nullptr : node.arguments[0].value.value_id();
  if (!contains(kDropouts, node.target)) return nullptr;
  const ir::Argument* train = find_argument(node, "train", 2);
  const bool* is_training = train == nullptr ? nullptr : std::get_if<bool>(&train->value);
  if (is_training == nullptr || *is_training) return nullptr;
  return node.arguments[0].value.value_id();
}

// Arithmetic on sizes: no effect but its result.
bool is_size_arithmetic(std::string_view target) {
  return target.starts_with("_operator.") || target.starts_with("torch.sym_") || target.starts_with("math.") ||
         target.starts_with("aten.sym_size") || target.starts_with("aten.sym_numel") ||
         target.starts_with("aten.sym_stride") || target.starts_with("aten.sym_storage_offset");
}

// What the regions around a node say.
struct Mode {
  bool grad_enabled = true;
  std::optional<AutocastRegion> autocast;
};

class Normalizer {
 public:
  explicit Normalizer(ir::Graph* graph) : graph_(graph), keep_aliases_(reshapes_in_place(*graph)) {
    for (const ir::Value& value : graph->values) names_.insert(value.name);
  }

  Status run(const Mode& mode) {
    std::vector<ir::Node> nodes = std::exchange(graph_->nodes, {});
    for (ir::Node& node : nodes) KPT_RETURN_IF_ERROR(append(std::move(node), mode));
    for (ir::GraphOutput& output : graph_->outputs) substitute(&output.value);
    drop_unused_size_arithmetic();
    drop_unused_values();
    return {};
  }

 private:
  Status append(ir::Node node, const Mode& mode) {
    for (ir::NamedArgument& argument : node.arguments) substitute(&argument.value);
    if (node.target == "higher_order.wrap_with_set_grad_enabled") return inline_set_grad(node, mode);
    if (node.target == "higher_order.wrap_with_autocast") return inline_autocast(node, mode);
    if (contains(kDropped, node.target)) return {};
    if (const ValueId* passed = find_passed_value(node, keep_aliases_)) {
      substitutes_[index_of(node.outputs[0].values[0])] = {*passed};
      return {};
    }
    node.grad_enabled = mode.grad_enabled;
    if (mode.autocast) KPT_RETURN_IF_ERROR(cast_arguments(&node, *mode.autocast));
    for (ir::NamedArgument& argument : node.arguments) {
      auto* subgraph = std::get_if<ir::Subgraph>(&argument.value.value);
      if (subgraph == nullptr) continue;
      ir::Graph inner = *subgraph->graph;
      KPT_RETURN_IF_ERROR(Normalizer(&inner).run(mode));
      subgraph->graph = std::make_shared<const ir::Graph>(std::move(inner));
    }
    graph_->nodes.push_back(std::move(node));
    return {};
  }

  Status inline_set_grad(const ir::Node& node, Mode mode) {
    const bool* enabled = node.arguments.empty() ? nullptr : std::get_if<bool>(&node.arguments[0].value.value);
    if (enabled == nullptr) return corrupt(node, "its first argument is not True or False");
    mode.grad_enabled = *enabled;
    return inline_graph(node, 1, mode);
  }

  // (device type, dtype, enabled, cache enabled, graph, operands…)
  Status inline_autocast(const ir::Node& node, Mode mode) {
    if (node.arguments.size() < 5) return corrupt(node, "it has too few arguments");
    const auto* device = std::get_if<std::string>(&node.arguments[0].value.value);
    const auto* dtype = std::get_if<DType>(&node.arguments[1].value.value);
    const auto* enabled = std::get_if<bool>(&node.arguments[2].value.value);
    if (device == nullptr || enabled == nullptr) return corrupt(node, "it does not say for what it is enabled");
    if (*enabled) {
      const DType usual = *device == "cuda" ? DType::kFloat16 : DType::kBFloat16;
      mode.autocast = AutocastRegion{.device = *device, .dtype = dtype == nullptr ? usual : *dtype};
    } else if (mode.autocast && mode.autocast->device == *device) {
      mode.autocast.reset();
    }
    return inline_graph(node, 4, mode);
  }

  Status cast_arguments(ir::Node* node, const AutocastRegion& region) {
    KPT_ASSIGN_OR_RETURN(const std::optional<DType> dtype, find_autocast_type(*graph_, *node, region));
    if (!dtype) return {};
    for (ir::NamedArgument& argument : node->arguments) cast(*node, region, *dtype, &argument.value);
    return {};
  }

  void cast(const ir::Node& node, const AutocastRegion& region, DType dtype, ir::Argument* argument) {
    if (auto* list = std::get_if<ir::List>(&argument->value)) {
      for (ir::Argument& item : list->items) cast(node, region, dtype, &item);
    }
    const ValueId* id = argument->value_id();
    if (id == nullptr || !is_autocast_eligible(graph_->at(*id), region)) return;
    ir::Value result = graph_->at(*id);
    if (result.tensor.dtype == dtype) return;
    result.tensor.dtype = dtype;
    result.name = std::string(shortened(result.name)) + "_as_" + std::string(to_string(dtype));
    result = renamed(std::move(result), node.name);
    ir::Node conversion;
    conversion.target = "aten.to.dtype";
    conversion.name = result.name;
    conversion.arguments = {{"self", {*id}}, {"dtype", {dtype}}};
    conversion.grad_enabled = node.grad_enabled;
    conversion.metadata_offset = node.metadata_offset;
    conversion.outputs = {{.is_list = false, .values = {graph_->add_value(std::move(result))}}};
    argument->value = conversion.outputs[0].values[0];
    graph_->nodes.push_back(std::move(conversion));
  }

  // Puts the nodes of the sub-graph at argument `position` here; the arguments behind it are its inputs.
  Status inline_graph(const ir::Node& node, std::size_t position, const Mode& mode) {
    const auto* subgraph =
        position < node.arguments.size() ? std::get_if<ir::Subgraph>(&node.arguments[position].value.value) : nullptr;
    if (subgraph == nullptr) return corrupt(node, "it has no graph where one belongs");
    const ir::Graph& inner = *subgraph->graph;
    std::vector<ir::Argument> mapping(inner.values.size());
    KPT_RETURN_IF_ERROR(map_inputs(node, position + 1, inner, &mapping));
    for (ir::Node copy : inner.nodes) {
      for (ir::NamedArgument& argument : copy.arguments) rename(mapping, &argument.value);
      for (ir::Output& output : copy.outputs) {
        for (ValueId& id : output.values) {
          if (id == ir::kNoValue) continue;
          const ValueId outer = graph_->add_value(renamed(inner.at(id), node.name));
          mapping[index_of(id)].value = outer;
          id = outer;
        }
      }
      KPT_RETURN_IF_ERROR(append(std::move(copy), mode));
    }
    return map_outputs(node, inner, mapping);
  }

  Status map_inputs(const ir::Node& node, std::size_t first, const ir::Graph& inner,
                    std::vector<ir::Argument>* mapping) const {
    if (node.arguments.size() - first != inner.inputs.size()) {
      return corrupt(node, "it gives its graph another number of inputs than the graph has");
    }
    for (std::size_t i = 0; i < inner.inputs.size(); ++i) {
      if (inner.inputs[i].value == ir::kNoValue) continue;
      const ir::Argument& operand = node.arguments[first + i].value;
      const ir::ValueKind needed = inner.at(inner.inputs[i].value).kind;
      const ValueId* id = operand.value_id();
      const bool fits = id != nullptr ? graph_->at(*id).kind == needed : is_constant_of(operand, needed);
      if (!fits) return corrupt(node, "it gives its graph an input of another kind than the graph takes");
      (*mapping)[index_of(inner.inputs[i].value)] = operand;
    }
    return {};
  }

  static bool is_constant_of(const ir::Argument& operand, ir::ValueKind kind) {
    switch (kind) {
      case ir::ValueKind::kInt: return std::holds_alternative<std::int64_t>(operand.value);
      case ir::ValueKind::kFloat: return std::holds_alternative<double>(operand.value);
      case ir::ValueKind::kBool: return std::holds_alternative<bool>(operand.value);
      default: return false;
    }
  }

  Status map_outputs(const ir::Node& node, const ir::Graph& inner, const std::vector<ir::Argument>& mapping) {
    std::vector<ValueId> results;
    for (const ir::Output& output : node.outputs) {
      results.insert(results.end(), output.values.begin(), output.values.end());
    }
    if (results.size() != inner.outputs.size()) {
      return corrupt(node, "it has another number of results than its graph gives");
    }
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (results[i] == ir::kNoValue) continue;
      ir::Argument result = inner.outputs[i].value;
      rename(mapping, &result);
      substitute(&result);
      const ValueId* id = result.value_id();
      const ir::ValueKind needed = graph_->at(results[i]).kind;
      const bool fits = id != nullptr ? graph_->at(*id).kind == needed : is_constant_of(result, needed);
      if (!fits) return corrupt(node, "its graph gives a result of another kind");
      substitutes_[index_of(results[i])] = std::move(result);
    }
    return {};
  }

  // From the values of a sub-graph to those of this one.
  static void rename(const std::vector<ir::Argument>& mapping, ir::Argument* argument) {
    if (const ValueId* id = argument->value_id()) {
      *argument = ir::Argument(mapping[index_of(*id)]);
    } else if (auto* list = std::get_if<ir::List>(&argument->value)) {
      for (ir::Argument& item : list->items) rename(mapping, &item);
    }
  }

  // A short text can ask for many new values, each of which would get the whole of a long name.
  static std::string_view shortened(std::string_view name) {
    constexpr std::size_t kMost = 256;
    if (name.size() <= kMost) return name;
    std::size_t length = kMost;
    while (length > 0 && (static_cast<unsigned char>(name[length]) & 0xC0U) == 0x80U) --length;  // inside of UTF-8
    return name.substr(0, length);
  }

  ir::Value renamed(ir::Value value, std::string_view prefix) {
    if (names_.insert(value.name).second) return value;
    const std::string wanted = std::string(shortened(prefix)) + "." + std::string(shortened(value.name));
    value.name = wanted;
    int& suffix = suffixes_.try_emplace(wanted, 1).first->second;
    while (!names_.insert(value.name).second) value.name = wanted + "_" + std::to_string(++suffix);
    return value;
  }

  void substitute(ir::Argument* argument) const {
    if (const ValueId* id = argument->value_id()) {
      const auto found = substitutes_.find(index_of(*id));
      if (found != substitutes_.end()) *argument = ir::Argument(found->second);
    } else if (auto* list = std::get_if<ir::List>(&argument->value)) {
      for (ir::Argument& item : list->items) substitute(&item);
    }
  }

  template <typename Visit>
  static void for_each_result(const ir::Node& node, const Visit& visit) {
    for (const ir::Output& output : node.outputs) {
      for (const ValueId id : output.values) {
        if (id != ir::kNoValue) visit(id);
      }
    }
  }

  void drop_unused_size_arithmetic() {
    std::vector<bool> used(graph_->values.size());
    const auto use = [&](ValueId id) { used[index_of(id)] = true; };
    for (const ir::GraphOutput& output : graph_->outputs) ir::for_each_value(output.value, use);
    std::vector<ir::Node> kept;
    for (auto node = graph_->nodes.rbegin(); node != graph_->nodes.rend(); ++node) {
      bool needed = !is_size_arithmetic(node->target);
      for_each_result(*node, [&](ValueId id) { needed = needed || used[index_of(id)]; });
      if (!needed) continue;
      for (const ir::NamedArgument& argument : node->arguments) ir::for_each_value(argument.value, use);
      kept.push_back(std::move(*node));
    }
    std::reverse(kept.begin(), kept.end());
    graph_->nodes = std::move(kept);
  }

  // Values that nothing defines any more go, and the others move together.
  void drop_unused_values() {
    std::vector<bool> defined(graph_->values.size());
    for (const ir::GraphInput& input : graph_->inputs) {
      if (input.value != ir::kNoValue) defined[index_of(input.value)] = true;
    }
    for (const ir::Node& node : graph_->nodes) {
      for_each_result(node, [&](ValueId id) { defined[index_of(id)] = true; });
    }
    std::vector<ir::Argument> places(graph_->values.size());
    std::vector<ir::Value> values;
    for (std::size_t i = 0; i < defined.size(); ++i) {
      if (!defined[i]) continue;
      places[i].value = static_cast<ValueId>(values.size());
      values.push_back(std::move(graph_->values[i]));
    }
    const auto move = [&](ValueId* id) {
      if (*id != ir::kNoValue) *id = *places[index_of(*id)].value_id();
    };
    graph_->values = std::move(values);
    for (ir::GraphInput& input : graph_->inputs) move(&input.value);
    for (ir::Node& node : graph_->nodes) {
      for (ir::NamedArgument& argument : node.arguments) rename(places, &argument.value);
      for (ir::Output& output : node.outputs)
        std::for_each(output.values.begin(), output.values.end(), [&](ValueId& id) { move(&id); });
    }
    for (ir::GraphOutput& output : graph_->outputs) rename(places, &output.value);
  }

  static Status corrupt(const ir::Node& node, const std::string& what) {
    return {StatusCode::kCorruptData,
            "the node '" + printable(node.name, 128) + "' (" + printable(node.target, 128) + "): " + what};
  }

  ir::Graph* graph_;
  bool keep_aliases_;
  std::unordered_set<std::string> names_;
  std::unordered_map<std::string, int> suffixes_;                // by name: that tried last, all below are taken
  std::unordered_map<std::uint32_t, ir::Argument> substitutes_;  // always resolved themselves
};

}  // namespace

Status normalize(ir::Graph* graph) { return Normalizer(graph).run({}); }

}  // namespace kpt
