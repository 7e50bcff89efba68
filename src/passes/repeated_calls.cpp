#include "passes/repeated_calls.h"

#include <unordered_map>

#include "ir/text.h"
#include "passes/graph_edit.h"
#include "passes/node_arguments.h"

namespace kpt {
namespace {

// Target and arguments as text: the node's line without its results and name.
std::string key_of(const ir::Graph& graph, ir::Node node) {
  node.outputs.clear();
  node.name.clear();
  return ir::print_node(graph, node);
}

bool keeps_its_memory(const GraphEdit& edit, const ir::Node& node) {
  bool kept = true;
  const auto look = [&](ir::ValueId id) { kept = kept && !(edit.is_tensor(id) && edit.facts().is_written(id)); };
  for (const ir::NamedArgument& argument : node.arguments) ir::for_each_value(argument.value, look);
  for (const ir::Output& output : node.outputs) {
    for (const ir::ValueId id : output.values) {
      if (id != ir::kNoValue) look(id);
    }
  }
  return kept;
}

bool is_output(const GraphEdit& edit, const ir::Node& node) {
  for (const ir::Output& output : node.outputs) {
    for (const ir::ValueId id : output.values) {
      if (id != ir::kNoValue && edit.is_output(id)) return true;
    }
  }
  return false;
}

// The recorded element type is part of what a node of ours computes.
bool has_same_results(const GraphEdit& edit, const ir::Node& a, const ir::Node& b) {
  if (a.outputs.size() != b.outputs.size()) return false;
  for (std::size_t place = 0; place < a.outputs.size(); ++place) {
    if (a.outputs[place].values.size() != b.outputs[place].values.size()) return false;
    for (std::size_t item = 0; item < a.outputs[place].values.size(); ++item) {
      const ir::ValueId one = a.outputs[place].values[item];
      const ir::ValueId other = b.outputs[place].values[item];
      if ((one == ir::kNoValue) != (other == ir::kNoValue)) return false;
      if (edit.is_tensor(one) && edit.is_tensor(other) && edit.type(one).dtype != edit.type(other).dtype) return false;
    }
  }
  return true;
}

Result<PassStats> run_repeated_calls(ir::Graph& graph, PassContext& context) {
  PassStats stats;
  GraphEdit edit(graph, context.weights);
  std::unordered_map<std::string, NodeIndex> seen;
  for (NodeIndex index = 0; index < edit.size(); ++index) {
    const ir::Node& node = edit.node(index);
    if (!edit.is_alive(index) || !is_pure(node) || !keeps_its_memory(edit, node)) continue;
    const auto [first, inserted] = seen.emplace(key_of(graph, node), index);
    if (inserted || is_output(edit, node)) continue;
    const ir::Node& original = edit.node(first->second);
    if (!has_same_results(edit, original, node)) continue;
    ++stats.changes;
    stats.details.push_back(node.name + " is " + original.name);
    for (std::size_t place = 0; place < node.outputs.size(); ++place) {
      for (std::size_t item = 0; item < node.outputs[place].values.size(); ++item) {
        const ir::ValueId from = node.outputs[place].values[item];
        if (from != ir::kNoValue) edit.replace_uses(from, original.outputs[place].values[item]);
      }
    }
    edit.erase_unused(index);
  }
  return stats;
}

Support applies_repeated_calls(const Capabilities& /*capabilities*/) { return {}; }

}  // namespace

const Pass kCommonSubexpressions = {"common_subexpressions", "the same call with the same arguments is made once", true,
                                    applies_repeated_calls, run_repeated_calls};

}  // namespace kpt
