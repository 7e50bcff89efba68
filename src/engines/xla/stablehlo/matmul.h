// Products of matrices on values.
#pragma once

#include <optional>

#include "engines/xla/stablehlo/builder.h"

namespace kpt::xla {

// Both operands have one element type; the sums, and the result, are in math_dtype() of it.
// torch.matmul: vectors, matrices, and batches that broadcast.
Value matmul(Builder& builder, const Value& a, const Value& b);
// input [..., K] · weightᵀ [K, N] + bias.
Value linear(Builder& builder, const Value& input, const Value& weight, const std::optional<Value>& bias);

}  // namespace kpt::xla
