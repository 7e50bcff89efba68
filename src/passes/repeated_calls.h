// The same operator with the same arguments is computed once.
#pragma once

#include "passes/pass.h"

namespace kpt {

extern const Pass kCommonSubexpressions;

}  // namespace kpt
