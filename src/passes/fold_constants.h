// What depends on no input of the caller is computed now: the pass hands maximal constant parts of the graph to the
// context's evaluator and keeps their results as weights.
//
// Left alone: results larger than 4 MiB and larger than the weights they come from, views of weights (they cost
// nothing), and whatever writes memory or draws random numbers.
#pragma once

#include "passes/pass.h"

namespace kpt {

extern const Pass kFoldConstants;

}  // namespace kpt
