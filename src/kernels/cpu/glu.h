// activation(first half of a row) · second half.
#pragma once

#include "kernels/cpu/activation.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/rows.h"

namespace kpt::kernels {

// `input`: rows of 2N elements. `result`: rows of N, contiguous, of the input's type; what is between is float32.
// Needs no workspace.
void run_glu(const Rows& input, Activation activation, void* result, const Parallel& parallel);

}  // namespace kpt::kernels
