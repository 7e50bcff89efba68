// x · cos + rotate_half(x) · sin (slices, a negation and a concatenation) becomes kpt.rotary.
#pragma once

#include "passes/pass.h"

namespace kpt {

extern const Pass kFuseRotary;

}  // namespace kpt
