// Buffers that a model writes need not be in memory twice: the module says that the new contents may take the old ones'
// place, and a run then says for each whether it may.
#pragma once

#include "engines/xla/execution/module_attributes.h"
#include "engines/xla/stablehlo/lower.h"
#include "ir/graph.h"

namespace kpt {

// Every argument that is a written weight of the same type and shape as its new contents is marked as aliased to that
// result.
void mark_donated_buffers(const ir::Graph& graph, const xla::LoweredModule& module, MainAttributes& attributes);

}  // namespace kpt
