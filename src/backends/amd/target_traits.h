// What planned launches may use of a gfx target.
#pragma once

#include "backends/amd/architecture.h"
#include "engines/native/graph_plan.h"

namespace kpt {

// Its wave and its matrix cores. `compute_units` 0: unknown.
native::Traits native_traits(const AmdArchitecture& architecture, int compute_units);

}  // namespace kpt
