// Two-dimensional convolutions with constant weights become kpt.conv2d, with the bias, a residual that is added and the
// activation behind it, where nobody else looks at what is between.
#pragma once

#include "passes/pass.h"

namespace kpt {

extern const Pass kFuseConv;

}  // namespace kpt
