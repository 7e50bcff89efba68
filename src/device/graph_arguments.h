// What is given to a graph: weights when it is loaded, inputs when it runs.
#pragma once

#include <set>
#include <span>
#include <string>

#include "ir/graph.h"
#include "kpt/status.h"
#include "kpt/tensor.h"

namespace kpt {

// Fails with kInvalidArgument when the weight is not of the type and the extents that the graph says.
Status check_weight(const ir::Value& value, const ir::GraphInput& input, const Tensor& weight);

// Symbols that inputs of the user show: as an extent, or in one like 2*s0 + 1 that has no other unknown. Others, of
// numbers that a node reads out of a tensor, are known to nobody before the run.
std::set<std::string, std::less<>> find_shown_symbols(const ir::Graph& graph);

// What each of these is, as the inputs show it. `inputs` are those of the user, in the graph's order. Fails with
// kInvalidArgument for an extent that no whole number gives.
Status bind_symbols(const ir::Graph& graph, std::span<const Tensor> inputs, ir::Bindings& sizes);

}  // namespace kpt
