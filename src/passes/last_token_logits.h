// The final projection of a language model for the last position only: [B, S, V] becomes [B, 1, V]. Generation needs no
// more. It changes the shape of an output, so it stands in no level and runs only when asked for by name.
#pragma once

#include "passes/pass.h"

namespace kpt {

extern const Pass kLastTokenLogits;

}  // namespace kpt
