// The reference form of a model: the same graph with every floating-point type, cast and weight in fp64. Its run on the
// CPU is what all others are compared with.
#pragma once

#include <cstddef>
#include <span>

#include "device/weights.h"
#include "ir/graph.h"
#include "kpt/status.h"

namespace kpt {

// All real floating-point types become float64 (complex ones complex128): values, casts, factories. Integers and bools
// stay. Products of FP8 (aten._scaled_mm) become products of the numbers times their scales, under the same name; what
// the model rounds to FP8 on the way is not rounded. Fails with kUnsupported for operators that look at the bits of a
// number (view.dtype) or have no meaning here (FP8 with scales of blocks), by name.
Status promote_to_fp64(ir::Graph& graph);

// The tensor in float64; a tensor of another kind is returned as it is. Fails with kUnsupported for complex32.
Result<Tensor> promote_to_fp64(const Tensor& tensor);

// Elements of a real floating-point type, as they lie in memory, as doubles: to.size() of them.
void widen_elements(const std::byte* from, DType dtype, std::span<double> to);

// All weights. Weights of one type that overlap in memory overlap afterwards in the same way.
Result<Weights> promote_to_fp64(const Weights& weights);

}  // namespace kpt
