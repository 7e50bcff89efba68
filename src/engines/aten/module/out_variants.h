// Operators whose result can be written into memory that we planned.
#pragma once

#include <string_view>

#include "engines/aten/module/compiled_graph.h"

namespace kpt::aten {

// Turns a boxed step into one that writes into a given tensor, when there is a way that is no slower than letting
// libtorch allocate: a typed function of ours, or an out-variant with a kernel of its own (many are only "compute, then
// copy", which this avoids). Returns false and changes nothing otherwise. `scratch_count` counts the places for cached
// views that typed steps need.
bool use_planned_result(const ir::Graph& graph, Step& step, std::uint32_t& scratch_count);

}  // namespace kpt::aten
