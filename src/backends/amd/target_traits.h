// What planned launches may use of a gfx target.
#pragma once

#include "backends/amd/architecture.h"
#include "engines/native/graph_plan.h"

namespace kpt {

// Which kernels for matrix cores are for the target: those whose instructions its row of the table has.
gpu::MatrixUnit matrix_unit_of(const AmdArchitecture& architecture);

// Its wave and, unless they are to be left alone, its matrix cores. `compute_units` 0: unknown.
native::Traits native_traits(const AmdArchitecture& architecture, int compute_units, bool matrix_cores = true);

}  // namespace kpt
