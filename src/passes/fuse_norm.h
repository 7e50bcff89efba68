// Norms over the last axis become kpt.add_norm: a layer norm of a sum takes the addition in, and a root-mean-square
// norm that was written out (square, mean, epsilon, rsqrt, products, with the casts that models make) becomes one node,
// with the addition in front of it if there is one.
#pragma once

#include "passes/pass.h"

namespace kpt {

extern const Pass kFuseNorm;

}  // namespace kpt
