#include "optimize/precision_search.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "artifact/artifact.h"
#include "passes/narrow_results.h"
#include "passes/node_arguments.h"
#include "passes/own_calls.h"
#include "validation/layers.h"

namespace kpt {
namespace {

bool is_half(DType dtype) { return dtype == DType::kBFloat16 || dtype == DType::kFloat16; }

bool has_wide_weights(const ImportedModel& model) {
  return std::ranges::any_of(model.weights, [](const auto& entry) {
    return entry.second.dtype() == DType::kFloat32 || entry.second.dtype() == DType::kFloat64;
  });
}

bool is_low(const ir::Graph& graph, const ir::Node& node, bool wide_model) {
  if (!node.target.starts_with("kpt.") && !node.target.starts_with("aten.")) return false;
  if (is_quantized_product(node.target)) return true;
  // Nothing is rounded by moving elements, or by choosing among them.
  if (!wide_model || only_moves_elements(node.target) || node.target == "aten.where.self") return false;
  bool low = false;
  const auto look = [&](ir::ValueId id) {
    if (id == ir::kNoValue || graph.at(id).kind != ir::ValueKind::kTensor) return;
    low = low || is_half(graph.at(id).tensor.dtype);
  };
  for (const ir::NamedArgument& argument : node.arguments) ir::for_each_value(argument.value, look);
  for (const ir::Output& output : node.outputs) std::ranges::for_each(output.values, look);
  return low;
}

bool is_quantized(const ir::Graph& graph, const std::string& name) {
  const auto node = std::ranges::find(graph.nodes, name, &ir::Node::name);
  return node != graph.nodes.end() && is_quantized_product(node->target);
}

// Relative error as the cosine shows it.
double relative_error(const OutputVerdict& verdict) {
  return std::isfinite(verdict.cosine) ? std::sqrt(std::max(0.0, 2 - 2 * verdict.cosine)) : 2;
}

}  // namespace

std::vector<std::string> list_low_precision(const ImportedModel& model, const ir::Graph& candidate) {
  const bool wide = has_wide_weights(model);
  std::vector<std::string> names;
  for (const ir::Node& node : candidate.nodes) {
    if (is_low(candidate, node, wide)) names.push_back(node.name);
  }
  return names;
}

std::vector<std::string> list_fast_types(const ImportedModel& model, const ir::Graph& candidate,
                                         const Capabilities& capabilities) {
  std::vector<std::string> needs;
  for (const ir::Node& node : candidate.nodes) {
    const ir::ValueId weight = value_argument(node, "weight");
    // Those of aten stand where its kernel was measured to be faster than ours.
    const bool multiplies =
        node.target.starts_with("kpt.") || is_any(node, {"aten.linear.default", "aten.conv2d.default"});
    if (!multiplies || weight == ir::kNoValue) continue;
    const DType dtype = candidate.at(weight).tensor.dtype;
    // What is widened before it is multiplied need not be fast in its own type.
    if (dtype == DType::kUInt8 || node.target == kLinearWeightInt8Target || element_bytes(dtype) > 2) continue;
    if (!has_matrix_dtype(capabilities, dtype)) continue;
    const bool own =
        std::ranges::any_of(model.weights, [&](const auto& entry) { return entry.second.dtype() == dtype; });
    std::string need = std::string(kFastPrefix) + std::string(to_string(dtype));
    if (!own && std::ranges::find(needs, need) == needs.end()) needs.push_back(std::move(need));
  }
  return needs;
}

void follow_moves(const ir::Graph& graph, std::map<std::string, double, std::less<>>& errors) {
  const auto each_move = [&](const ir::Node& node, const auto& visit) {
    const ir::ValueId from = value_argument(node, "self");
    if (from == ir::kNoValue || !only_moves_elements(node.target)) return;
    for (const ir::Output& output : node.outputs) {
      for (const ir::ValueId to : output.values) {
        if (to != ir::kNoValue) visit(graph.at(from).name, graph.at(to).name);
      }
    }
  };
  const auto compared = errors;
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    each_move(*node, [&](const std::string& from, const std::string& to) {
      const auto found = errors.find(to);
      if (found == errors.end() || compared.contains(from)) return;
      errors[from] = std::max(errors[from], found->second);
    });
  }
  for (const ir::Node& node : graph.nodes) {
    each_move(node, [&](const std::string& from, const std::string& to) {
      if (const auto found = errors.find(from); found != errors.end()) errors.emplace(to, found->second);
    });
  }
}

Result<std::vector<std::string>> rank_by_added_error(const ImportedModel& model, const ImportedModel& candidate,
                                                     const Gate& gate, std::size_t draw, const PlacedDevice& cpu) {
  KPT_ASSIGN_OR_RETURN(const std::vector<LayerError> layers,
                       compare_layers(model, candidate, gate, draw, gate.device(), cpu));
  std::map<std::string, double, std::less<>> errors;  // by value
  for (const LayerError& layer : layers) errors.emplace(layer.value, relative_error(layer.verdict));
  follow_moves(candidate.graph, errors);
  const bool wide = has_wide_weights(model);
  std::vector<std::pair<double, std::string>> added;
  for (const ir::Node& node : candidate.graph.nodes) {
    if (!is_low(candidate.graph, node, wide)) continue;
    double taken = 0;
    for (const ir::NamedArgument& argument : node.arguments) {
      ir::for_each_value(argument.value, [&](ir::ValueId id) {
        const auto found = errors.find(candidate.graph.at(id).name);
        if (found != errors.end()) taken = std::max(taken, found->second);
      });
    }
    double given = -1;
    for (const ir::Output& output : node.outputs) {
      for (const ir::ValueId id : output.values) {
        if (id == ir::kNoValue) continue;
        const auto found = errors.find(candidate.graph.at(id).name);
        if (found != errors.end()) given = std::max(given, found->second - taken);
      }
    }
    added.emplace_back(given, node.name);
  }
  std::ranges::stable_sort(added, [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::string> names;
  for (auto& [error, name] : added) names.push_back(std::move(name));
  return names;
}

void keep_quantized_only(const ir::Graph& candidate, std::vector<std::string>& names) {
  const auto quantized = [&](const std::string& name) { return is_quantized(candidate, name); };
  if (std::ranges::any_of(names, quantized)) std::erase_if(names, std::not_fn(quantized));
}

bool raise_precision(const ir::Graph& candidate, const std::vector<std::string>& names,
                     std::vector<std::string>& not_quantized, std::vector<std::string>& kept_precise) {
  bool any = false;
  for (const std::string& name : names) {
    std::vector<std::string>& list = is_quantized(candidate, name) ? not_quantized : kept_precise;
    if (std::ranges::find(list, name) != list.end()) continue;
    list.push_back(name);
    any = true;
  }
  return any;
}

}  // namespace kpt
