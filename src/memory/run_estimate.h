// How much memory a run will hold, before it starts: from sizes and lifetimes alone. A pure function.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ir/graph.h"
#include "ir/symbolic.h"
#include "kpt/tensor.h"

namespace kpt {

// Symbols of the graph and what the extents of its inputs say they are. `inputs`: one per kUser input, in order. The
// graph must outlive the result.
ir::Bindings bind_extents(const ir::Graph& graph, std::span<const Tensor> inputs);

struct RunEstimate {
  std::uint64_t bytes = 0;  // of results that are alive at once, outputs to the end; without inputs and weights
  std::size_t unknown = 0;  // results whose sizes depend on data: not counted
};

// `roots`: for each value the same number as for all that may share its memory. Memory that nodes take for themselves
// while they work is not in it. O(n²) for n results.
RunEstimate estimate_run(const ir::Graph& graph, const ir::Bindings& sizes, std::span<const std::uint32_t> roots);

}  // namespace kpt
