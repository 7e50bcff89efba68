#include <algorithm>
#include <set>

#include "passes/graph_edit.h"

namespace kpt {
namespace {

void renumber(ir::Argument& argument, const std::vector<ir::ValueId>& places) {
  if (const ir::ValueId* id = argument.value_id()) {
    argument.value = places[ir::index_of(*id)];
  } else if (auto* list = std::get_if<ir::List>(&argument.value)) {
    for (ir::Argument& item : list->items) renumber(item, places);
  }
}

std::size_t remove_unused_nodes(ir::Graph& graph, std::vector<bool>& used) {
  const auto use = [&](ir::ValueId id) { used[ir::index_of(id)] = true; };
  for (const ir::GraphOutput& output : graph.outputs) ir::for_each_value(output.value, use);
  std::vector<ir::Node> kept;
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    bool needed = !is_removable(*node);
    for (const ir::Output& output : node->outputs) {
      for (const ir::ValueId id : output.values) needed = needed || (id != ir::kNoValue && used[ir::index_of(id)]);
    }
    if (!needed) continue;
    for (const ir::NamedArgument& argument : node->arguments) ir::for_each_value(argument.value, use);
    kept.push_back(std::move(*node));
  }
  std::reverse(kept.begin(), kept.end());
  const std::size_t removed = graph.nodes.size() - kept.size();
  graph.nodes = std::move(kept);
  return removed;
}

void remove_unused_weights(ir::Graph& graph, Weights& weights, const std::vector<bool>& used) {
  std::set<std::string_view> replaced;  // by the model itself, after a run
  for (const ir::GraphOutput& output : graph.outputs) {
    if (output.kind != ir::OutputKind::kUser) replaced.insert(output.name);
  }
  std::erase_if(graph.inputs, [&](const ir::GraphInput& input) {
    const bool caller = input.kind == ir::InputKind::kUser || input.kind == ir::InputKind::kFixed;
    return !caller && !used[ir::index_of(input.value)] && !replaced.contains(input.name);
  });
  std::set<std::string_view> named;
  for (const ir::GraphInput& input : graph.inputs) {
    if (input.kind != ir::InputKind::kUser && input.kind != ir::InputKind::kFixed) named.insert(input.name);
  }
  std::erase_if(weights, [&](const auto& entry) { return !named.contains(entry.first); });
}

void renumber_values(ir::Graph& graph) {
  std::vector<ir::ValueId> places(graph.values.size(), ir::kNoValue);
  std::vector<ir::Value> values;
  const auto define = [&](ir::ValueId& id) {
    if (id == ir::kNoValue) return;
    places[ir::index_of(id)] = static_cast<ir::ValueId>(values.size());
    values.push_back(std::move(graph.values[ir::index_of(id)]));
    id = places[ir::index_of(id)];
  };
  for (ir::GraphInput& input : graph.inputs) define(input.value);
  for (ir::Node& node : graph.nodes) {
    for (ir::NamedArgument& argument : node.arguments) renumber(argument.value, places);
    for (ir::Output& output : node.outputs) std::for_each(output.values.begin(), output.values.end(), define);
  }
  for (ir::GraphOutput& output : graph.outputs) renumber(output.value, places);
  graph.values = std::move(values);
}

}  // namespace

std::size_t remove_unused(ir::Graph& graph, Weights& weights) {
  std::vector<bool> used(graph.values.size());
  const std::size_t removed = remove_unused_nodes(graph, used);
  remove_unused_weights(graph, weights, used);
  renumber_values(graph);
  return removed;
}

}  // namespace kpt
