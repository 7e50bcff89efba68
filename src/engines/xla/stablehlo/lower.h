// A graph becomes StableHLO text that any PJRT plugin compiles: one module, one function @main, all shapes fixed.
//
// The text is in MLIR's generic form ("stablehlo.add"(%0, %1) : (…) -> …), so that parsers without the dialect can
// check it too. Results are PyTorch's: type promotion, negative indices, signs of remainders. Where PyTorch would raise
// for the contents of a tensor (an index out of range) a compiled program cannot: a read gives NaN (the least integer;
// true for bool), a write puts that value into the nearest place in range, so that the error shows.
//
// Operators that write are made functional: what a graph writes into a buffer or an input, directly or through views,
// is among the results. Two weights that share memory are not known here; the caller must not pass such a graph when
// one of them is written.
//
// StableHLO's maximum and minimum keep NaN; XLA's CPU compiler does so only with xla_cpu_enable_fast_min_max off. Its
// exponentials of what it knows to be NaN write nothing: keep_nan() in activations.h.
//
// To add an operator: docs/how_to/add_a_lowering.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "device/execution.h"
#include "ir/graph.h"
#include "ir/symbolic.h"
#include "kpt/dtype.h"
#include "kpt/status.h"

namespace kpt::xla {

// The value of every symbol of the graph that is an extent of its inputs.
using SymbolValues = ir::Bindings;

// One argument or result of @main. Dense, row-major; bool is one byte per element (i1).
struct ModulePlace {
  std::uint32_t index = 0;
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> dims;
  bool operator==(const ModulePlace&) const = default;
};

struct LoweredModule {
  std::string text;
  // `index` into graph.inputs: only those that the module uses, in order. Inputs that are numbers are not among them:
  // integers are known from the sizes, and others are refused.
  std::vector<ModulePlace> arguments;
  // First `output_count` of them: the user outputs that are values, in order; `index` into graph.outputs. An integer is
  // an int64 tensor without dims. Then the new contents of what the graph writes; `index` into graph.inputs (buffers,
  // parameters, and user inputs that the model writes).
  std::vector<ModulePlace> results;
  std::size_t output_count = 0;
};

// Fails with kUnsupported, naming all nodes that cannot be lowered, each with the reason; with kInvalidArgument when a
// symbol has no value or the sizes do not fit the graph.
Result<LoweredModule> lower(const ir::Graph& graph, const SymbolValues& sizes);

// One answer per node, in the order of graph.nodes. Sizes that the inputs show and `sizes` does not have are assumed
// within the ranges of the graph's symbols; a node is supported when it is with some of several such sizes. Numbers
// that come out of a tensor have none, and what needs them is refused.
Result<std::vector<Support>> check_lowering(const ir::Graph& graph, const SymbolValues& sizes = {});

}  // namespace kpt::xla
