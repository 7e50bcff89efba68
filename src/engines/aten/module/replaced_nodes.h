// Operators of PyTorch that the CPU engine runs by a function of ours: libtorch's own kernel for the CPU does not take
// every form of them on every version and processor.
#pragma once

#include "engines/aten/module/compiled_graph.h"

namespace kpt::aten {

// The function for a node; null when there is none for its operator or its recorded types do not fit it. It reads a
// boxed step's arguments and sets the result's slot, which shares memory with nothing.
TypedFunction find_replacement(const ir::Graph& graph, const ir::Node& node);

}  // namespace kpt::aten
