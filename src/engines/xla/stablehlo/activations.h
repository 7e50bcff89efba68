// Activation functions on values, for the operators of PyTorch and for those of our own that end in one.
#pragma once

#include "engines/xla/stablehlo/builder.h"
#include "ir/own_operators.h"

namespace kpt::xla {

// erf(x), and ±1 itself where float32 and float64 have nothing nearer: XLA's stops an ulp before, so that 1 + erf(-inf)
// is not zero. `x` in float32 or float64, as below.
Value error_function(Builder& builder, const Value& x);

// NaN where x is, and `result` elsewhere: what an exponential function or its like gave for x. They give NaN
// themselves, but XLA's CPU compiler leaves out an element of which it knows while compiling that x is NaN (a remainder
// by a zero that a mask puts there).
Value keep_nan(Builder& builder, const Value& x, const Value& result);

Value apply_activation(Builder& builder, ir::Activation activation, const Value& x);

}  // namespace kpt::xla
