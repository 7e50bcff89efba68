// Nodes that change nothing: casts to the type that is there, views and expansions to the shape that is there, dropout
// in evaluation, contiguous() of what is so, clones that nobody writes, times one, minus zero.
#pragma once

#include "passes/pass.h"

namespace kpt {

extern const Pass kRemoveDeadCode;

}  // namespace kpt
