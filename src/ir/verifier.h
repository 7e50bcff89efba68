// Whether a graph is well formed: every value defined once and before its use, names unique, kinds as the arguments
// need them, inputs and outputs consistent, symbols declared, sub-graphs well formed too.
//
// A value that nothing defines is allowed as long as nothing uses it: passes leave such values behind. Sub-graphs see
// the symbols of the graphs around them, and nothing else of theirs.
#pragma once

#include "ir/graph.h"
#include "kpt/status.h"

namespace kpt::ir {

// Fails with kCorruptData, naming the node and the value.
Status verify(const Graph& graph);

}  // namespace kpt::ir
