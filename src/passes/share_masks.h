// Truth values that several attentions take as their mask become zeros and minus infinities once, in front of the
// first: for targets whose attention adds its mask and would turn truth values into such numbers at every node.
#pragma once

#include "passes/pass.h"

namespace kpt {

extern const Pass kShareMasks;

}  // namespace kpt
