// Activation functions on values, for the operators of PyTorch and for those of our own that end in one.
#pragma once

#include "engines/xla/stablehlo/builder.h"
#include "ir/own_operators.h"

namespace kpt::xla {

// `x` in float32 or float64.
Value apply_activation(Builder& builder, ir::Activation activation, const Value& x);

}  // namespace kpt::xla
