// What published rates say of the time that a compiled program takes at least.
#pragma once

#include "device/compile_figures.h"
#include "ir/graph.h"

namespace kpt::cli {

// The rates that bound the program's time from below, for estimate_seconds(). All work counts at the fastest rate that
// the program has a use for (that of eight bits with one product of eight bits, else bfloat16's), less the products of
// float32 that take several passes of the matrix unit: these count at theirs, as far as the graph surely has them (a
// convolution without its outputs at padded borders, no quantized product) and never for more than the work that the
// compiler counts. Where the compiler multiplies float32 without the matrix unit, it takes longer still.
HardwareRates rates_for(const ir::Graph& graph, const ir::Bindings& sizes, const CompileFigures& figures,
                        HardwareRates rates);

}  // namespace kpt::cli
