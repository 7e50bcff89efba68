// Hot operators called without the boxed convention, writing into planned memory.
#pragma once

#include "engines/aten/module/compiled_graph.h"

namespace kpt::aten {

// The function for a boxed step whose single result will be planned; null when there is none or when the recorded types
// do not fit it.
TypedFunction find_typed_function(const ir::Graph& graph, const Step& step);

}  // namespace kpt::aten
