// Convolutions over one or two dimensions with constant weights become kpt.conv2d, with the bias, a residual that is
// added and the activation behind it, where nobody else looks at what is between. One over lines is one over images of
// one row, between views.
#pragma once

#include "passes/pass.h"

namespace kpt {

extern const Pass kFuseConv;

}  // namespace kpt
