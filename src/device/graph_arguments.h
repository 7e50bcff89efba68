// What is given to a graph: weights when it is loaded, inputs when it runs.
#pragma once

#include <span>

#include "ir/graph.h"
#include "kpt/status.h"
#include "kpt/tensor.h"

namespace kpt {

// Fails with kInvalidArgument when the weight is not of the type and the extents that the graph says.
Status check_weight(const ir::Value& value, const ir::GraphInput& input, const Tensor& weight);

// What each symbol is, as the inputs show it. `inputs` are those of the user, in the graph's order.
Status bind_symbols(const ir::Graph& graph, std::span<const Tensor> inputs, ir::Bindings& sizes);

}  // namespace kpt
