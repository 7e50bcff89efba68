// Weights of kpt.linear and kpt.conv2d in float32 become bfloat16, where the target multiplies faster in it and the
// node is not one that stays precise. Inputs, sums and results stay float32.
#pragma once

#include "passes/pass.h"

namespace kpt {

extern const Pass kAssignBf16;

}  // namespace kpt
