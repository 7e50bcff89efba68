// float32 numbers as a number from 1 to 2 and a power of two, which alone may grow beyond what a float32 holds.
#pragma once

#include "engines/xla/stablehlo/builder.h"

namespace kpt::xla {

struct Exponent {
  Value factor;  // 1 <= |factor| < 2; zeros, subnormal and infinite numbers and NaN are their own factor
  Value power;   // int32; 0 for those
};

Exponent split_exponent(Builder& b, const Value& x);
// The float32 that it is, rounded once; infinite where it is too large.
Value join_exponent(Builder& b, const Exponent& x);

}  // namespace kpt::xla
