// The one message about nodes that a target cannot run.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "device/execution.h"
#include "ir/graph.h"
#include "kpt/status.h"

namespace kpt {

// Where a node comes from ("model.py:12 in forward: …"); empty when nobody knows.
using FindSource = std::function<std::string(const ir::Node&)>;

// How the reason for a node begins that cannot run since nodes of its sub-graphs cannot; their list follows.
inline constexpr std::string_view kInsideIt = "inside it, ";

// kUnsupported with every operator that cannot run and why, how many nodes it concerns, and the first of them with its
// place; beyond a thousand operators the rest is counted. Ok when there is none. `answers`: one per node of the graph.
// `predicate`: "cannot run on cpu".
//   "3 of 9 nodes cannot run on cpu: 'x' aten.foo.default: … (model.py:12 in forward: …); 'y' aten.bar.default (first
//    of 2): …"
Status list_unsupported(const ir::Graph& graph, const std::vector<Support>& answers, std::string_view predicate,
                        const FindSource& find_source = {});

}  // namespace kpt
