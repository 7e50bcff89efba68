// Several products of one input become one: the rows of their weights stand below each other, and slices of the result
// take the places of the results. Where one of two is the gate of the other (activation(x · g) · (x · u)), the pair
// becomes one product and kpt.glu.
#pragma once

#include "passes/pass.h"

namespace kpt {

extern const Pass kMergeLinear;

}  // namespace kpt
