// The other way to run a node of ours: the calls of aten that compute the same. Passes put nodes of ours into a graph
// because they are faster as a rule; where a measurement on the machine says otherwise, this takes one back.
#pragma once

#include <string>
#include <vector>

#include "ir/graph.h"
#include "ir/symbolic.h"
#include "passes/memory_facts.h"
#include "passes/pass.h"

namespace kpt {

// A graph of one node. What is a constant weight of the whole stays one; other tensors are user inputs.
struct NodeModel {
  ir::Graph graph;
  Weights weights;
};

// The node alone, its tensors named after its arguments: nodes that run alike give the same text (print_graph),
// whatever they are called and whatever their weights hold, and two forms of a node take inputs of the same names.
NodeModel isolate_node(const ir::Graph& graph, const ConstantWeights& constants, const ir::Node& node);

// Every extent as a number. Fails with kInvalidArgument for symbols that `sizes` does not have.
Status fix_sizes(ir::Graph& graph, const ir::Bindings& sizes);

// Whether aten computes what the node computes; if not, why. Nodes that are none of ours are not supported.
Support has_library_form(const ir::Graph& graph, const ir::Node& node);

// Replaces the nodes of these names that have a library form; the others are left alone, and the details say why.
PassStats use_library_forms(ir::Graph& graph, Weights& weights, const std::vector<std::string>& nodes);

}  // namespace kpt
