// Products with a constant matrix become kpt.linear: aten.linear, and addmm, mm, matmul and bmm with a weight
// (transposed or not, expanded over the batch or not). A residual that is added and an activation behind it go into the
// node where nobody else looks at what is between. Views that only fold the leading axes for the product go too.
#pragma once

#include "passes/pass.h"

namespace kpt {

extern const Pass kFuseLinear;

}  // namespace kpt
