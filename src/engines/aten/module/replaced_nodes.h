// Operators of PyTorch that run by a function of ours: libtorch's own kernel for the device does not take every form of
// them on every version and processor, or there is none.
#pragma once

#include "engines/aten/module/compiled_graph.h"

namespace kpt::aten {

// The function for a node; null when there is none for its operator or its recorded types do not fit it. It reads a
// boxed step's arguments and sets the result's slot, which shares memory with nothing.
TypedFunction find_replacement(const ir::Graph& graph, const ir::Node& node, const at::Device& device);

}  // namespace kpt::aten
