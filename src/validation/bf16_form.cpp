#include "validation/bf16_form.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>

#include "validation/model_run.h"

namespace kpt {
namespace {

constexpr double kLargestBfloat16 = 3.3895313892515355e38;

bool is_wide_floating(DType dtype) { return dtype == DType::kFloat32 || dtype == DType::kFloat64; }

bool is_floating_tensor(const ir::Graph& graph, ir::ValueId id) {
  return id != ir::kNoValue && graph.at(id).kind == ir::ValueKind::kTensor && is_floating(graph.at(id).tensor.dtype);
}

// "aten.index_put_.default": the operator writes an argument.
bool writes_argument(const ir::Node& node) {
  const auto end = node.target.rfind('.');
  return end != std::string::npos && end > 1 && node.target[end - 1] == '_' && node.target[end - 2] != '_';
}

bool has_subgraph(const ir::Node& node) {
  return std::ranges::any_of(node.arguments, [](const ir::NamedArgument& argument) {
    return std::holds_alternative<ir::Subgraph>(argument.value.value);
  });
}

class Rewriter {
 public:
  Rewriter(ImportedModel model, Bf16Way way) : model_(std::move(model)), graph_(model_.graph), way_(way) {}

  Result<ImportedModel> rewrite() {
    std::vector<ir::Node> nodes = std::move(graph_.nodes);
    graph_.nodes.clear();
    KPT_RETURN_IF_ERROR(narrow_inputs());
    for (ir::Node& node : nodes) KPT_RETURN_IF_ERROR(rewrite(std::move(node)));
    for (ir::GraphOutput& output : graph_.outputs) finish(output);
    return std::move(model_);
  }

 private:
  bool real() const { return way_ == Bf16Way::kReal; }

  Status narrow_inputs() {
    for (const ir::GraphInput& input : graph_.inputs) {
      if (input.value == ir::kNoValue || !is_floating_tensor(graph_, input.value)) continue;
      const bool parameter = input.kind == ir::InputKind::kParameter;
      if (!parameter && input.kind != ir::InputKind::kUser) continue;
      narrow_.insert(input.value);
      const DType own = graph_.at(input.value).tensor.dtype;
      if (real()) graph_.at(input.value).tensor.dtype = DType::kBFloat16;
      if (parameter) {
        const auto weight = model_.weights.find(input.name);
        if (weight == model_.weights.end()) continue;
        KPT_ASSIGN_OR_RETURN(Tensor rounded, convert_floating(weight->second, DType::kBFloat16));
        if (!real()) {
          KPT_ASSIGN_OR_RETURN(rounded, convert_floating(rounded, own));
        }
        weight->second = std::move(rounded);
      } else if (!real()) {
        replaced_[input.value] = add_rounding(input.value);
      }
    }
    return {};
  }

  ir::ValueId add_cast(ir::ValueId from, DType dtype) {
    ir::Value value;
    value.name = fmt::format("bf16_form_{}", graph_.values.size());
    value.tensor = graph_.at(from).tensor;
    value.tensor.dtype = dtype;
    ir::Node node;
    node.name = value.name;
    node.target = "aten.to.dtype";
    node.arguments = {{"self", {from}}, {"dtype", {dtype}}};
    const ir::ValueId id = graph_.add_value(std::move(value));
    node.outputs = {{false, {id}}};
    graph_.nodes.push_back(std::move(node));
    return id;
  }

  // To bfloat16 and back.
  ir::ValueId add_rounding(ir::ValueId from) {
    const DType own = graph_.at(from).tensor.dtype;
    return add_cast(add_cast(from, DType::kBFloat16), own);
  }

  ir::ValueId narrowed(ir::ValueId id) {
    if (narrow_.contains(id)) return id;
    auto found = casts_.find(id);
    if (found == casts_.end()) found = casts_.emplace(id, add_cast(id, DType::kBFloat16)).first;
    return found->second;
  }

  void rewrite_argument(ir::Argument& argument, bool narrow) {
    if (auto* list = std::get_if<ir::List>(&argument.value)) {
      for (ir::Argument& item : list->items) rewrite_argument(item, narrow);
    } else if (auto* number = std::get_if<double>(&argument.value)) {
      if (std::isfinite(*number)) *number = std::clamp(*number, -kLargestBfloat16, kLargestBfloat16);
    } else if (auto* id = std::get_if<ir::ValueId>(&argument.value)) {
      if (const auto found = replaced_.find(*id); found != replaced_.end()) *id = found->second;
      if (real() && narrow && is_floating_tensor(graph_, *id)) *id = narrowed(*id);
    } else if (auto* dtype = std::get_if<DType>(&argument.value)) {
      if (real() && narrow && is_wide_floating(*dtype)) *dtype = DType::kBFloat16;
    }
  }

  Status rewrite(ir::Node node) {
    bool narrow = false;
    for (const ir::NamedArgument& argument : node.arguments) {
      ir::for_each_value(argument.value, [&](ir::ValueId id) { narrow = narrow || narrow_.contains(id); });
    }
    const bool writes = writes_argument(node);
    if (real() && narrow && (writes || has_subgraph(node))) {
      return {StatusCode::kUnsupported,
              fmt::format("node '{}' ({}) has no bfloat16 form here", node.name, node.target)};
    }
    for (ir::NamedArgument& argument : node.arguments) rewrite_argument(argument.value, narrow);
    const std::vector<ir::Output> outputs = node.outputs;
    graph_.nodes.push_back(std::move(node));
    if (!narrow) return {};
    for (const ir::Output& output : outputs) {
      for (const ir::ValueId id : output.values) {
        if (!is_floating_tensor(graph_, id)) continue;
        narrow_.insert(id);
        if (real()) graph_.at(id).tensor.dtype = DType::kBFloat16;
        if (!real() && !writes) replaced_[id] = add_rounding(id);
      }
    }
    return {};
  }

  // Buffers keep their type; what the model returns may be narrow.
  void finish(ir::GraphOutput& output) {
    ir::ValueId* id = std::get_if<ir::ValueId>(&output.value.value);
    if (id == nullptr) return;
    if (const auto found = replaced_.find(*id); found != replaced_.end()) *id = found->second;
    if (!real() || output.kind == ir::OutputKind::kUser || !narrow_.contains(*id)) return;
    for (const ir::GraphInput& input : graph_.inputs) {
      if (input.name == output.name && input.value != ir::kNoValue &&
          graph_.at(input.value).tensor.dtype != graph_.at(*id).tensor.dtype) {
        *id = add_cast(*id, graph_.at(input.value).tensor.dtype);
        return;
      }
    }
  }

  ImportedModel model_;
  ir::Graph& graph_;
  Bf16Way way_;
  std::set<ir::ValueId> narrow_;                 // bfloat16, or to be rounded like it
  std::map<ir::ValueId, ir::ValueId> casts_;     // of values that are not narrow
  std::map<ir::ValueId, ir::ValueId> replaced_;  // simulated: by its rounded copy
};

}  // namespace

std::string_view bf16_way_name(Bf16Way way) {
  return way == Bf16Way::kReal ? "run in bfloat16" : "simulated: every result rounded to bfloat16";
}

Result<ImportedModel> make_bf16_form(const ImportedModel& model, Bf16Way way) { return Rewriter(model, way).rewrite(); }

}  // namespace kpt
