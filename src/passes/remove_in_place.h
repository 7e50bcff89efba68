// Operators that write their first argument become the ones that do not, where nobody could tell the difference:
// add_(x, y) with x fresh memory that nobody looks at afterwards is add(x, y). All later passes match more for it.
#pragma once

#include "passes/pass.h"

namespace kpt {

extern const Pass kRemoveInPlace;

}  // namespace kpt
