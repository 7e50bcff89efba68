// A convolution or linear layer followed by batch normalisation in evaluation is one with other weights. They are
// computed in double and rounded once to the type of the old ones.
#pragma once

#include "passes/pass.h"

namespace kpt {

extern const Pass kFoldBatchNorm;

}  // namespace kpt
