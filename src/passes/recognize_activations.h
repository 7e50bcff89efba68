// Activations that were written out become one node: 0.5 x (1 + tanh(√(2/π) (x + 0.044715 x³))) and
// 0.5 x (1 + erf(x / √2)) are aten.gelu, x · sigmoid(x) is aten.silu. The factors may stand in any order.
#pragma once

#include "passes/pass.h"

namespace kpt {

extern const Pass kRecognizeActivations;

}  // namespace kpt
