// The text form of a graph, for people, golden files and stored programs. read_graph(print_graph(g)) == g for every
// graph that verify() accepts, the order of its values included.
//
//   kpt_graph 1
//   symbol s0 in 1..128
//   input x: float32[s0, 768]
//   parameter p_weight: float32[768, 768]{requires_grad} "weight"
//   linear: float32[s0, 768] = aten.linear.default(input=%x, weight=%p_weight)
//   max_values: float32[s0], max_indices: int64[s0] = aten.max.dim(self=%linear, dim=-1) name="max_1"
//   () = aten._assert_scalar.default(self=true, assert_msg="text")
//   output %max_values "values"
//
// Left out is what follows from the rest: row-major strides, the offset 0, the device cpu, the layout strided, a node's
// or an input's name that is that of its first value, the kind of a list that its constants show. Names that are no
// words stand in quotes: %"a name". Where the order of values is not that of their definitions, a line `values` gives
// it. A sub-graph is written in braces as the argument it is.
#pragma once

#include <string>
#include <string_view>

#include "ir/graph.h"
#include "kpt/status.h"

namespace kpt::ir {

std::string print_graph(const Graph& graph);

// "linear: float32[s0, 768] = aten.linear.default(input=%x, weight=%w, bias=%b)": one node, as print_graph() writes it.
std::string print_node(const Graph& graph, const Node& node);

// Fails with kCorruptData and the line. Checks form only; verify() checks sense. Bounded in depth.
Result<Graph> read_graph(std::string_view text);

}  // namespace kpt::ir
