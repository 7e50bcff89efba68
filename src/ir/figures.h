// What a graph costs, counted from its text: before anything runs, for given sizes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"

namespace kpt::ir {

// A multiplication and an addition count as two operations. `flops` of "pointwise" is one per element of the result,
// whatever the function. Nodes of sub-graphs count as well: those of a condition's greater branch, those of a loop for
// one turn (how many it takes, the data says). "control" has these nodes themselves.
struct ClassFigures {
  std::uint64_t nodes = 0;
  double flops = 0;
};

struct Figures {
  std::map<std::string, std::uint64_t> histogram;  // nodes by target, of all branches
  std::map<std::string, ClassFigures> classes;  // "matmul", "convolution", "attention", "pointwise", "view", "control"
  std::uint64_t nodes = 0;                      // of all branches
  bool has_loops = false;
  double flops = 0;
};

Figures count_figures(const Graph& graph, const Bindings& symbols);

// One node. Nothing where its sizes depend on data.
struct NodeFigures {
  std::string_view kind;        // one of Figures::classes
  std::optional<double> flops;  // as above; 0 of "control"
  // What it must read and write at least once: tensor arguments and results, whatever lies in caches. Of a table only
  // the rows that are looked up; of an expanded tensor all its elements. Views move nothing.
  std::optional<double> bytes;
};

NodeFigures count_node(const Graph& graph, const Node& node, const Bindings& symbols);

}  // namespace kpt::ir
