// What published rates say of the time that a compiled program takes at least.
#pragma once

#include "device/compile_figures.h"
#include "ir/graph.h"

namespace kpt::cli {

// The figures with what the graph shows where no compiler told operations or traffic: all that its nodes compute, read
// and write. Unchanged while sizes are free, and where a branch or a loop decides at run time how much that is.
CompileFigures with_counts(CompileFigures figures, const ir::Graph& graph, const ir::Bindings& sizes);

// The rates that bound the program's time from below, for estimate_seconds(). All work counts at the fastest rate that
// the program has a use for (that of eight bits with one product of eight bits, else bfloat16's), less the products of
// float32 that take several passes of the matrix unit: these count at theirs, as far as the graph surely has them (a
// convolution without its outputs at padded borders, no quantized product, nothing in branches and loops) and never for
// more than the work that the compiler counts. Where the compiler multiplies float32 without the matrix unit, it takes
// longer still.
HardwareRates rates_for(const ir::Graph& graph, const ir::Bindings& sizes, const CompileFigures& figures,
                        HardwareRates rates);

}  // namespace kpt::cli
