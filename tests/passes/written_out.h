// Our own operators written out in libtorch's: what a fused graph means, run by kernels that are not ours. So a pass is
// held to the contract of ir/own_operators.h whether or not the target has a kernel for the operator.
#pragma once

#include "importer/model_file.h"

namespace kpt::pass_runs {

// Quantized weights become floats again; that inputs of kpt.linear_int8, kpt.linear_fp8 and kpt.conv2d_int8 are
// quantized too is left out.
void write_out_own_operators(ImportedModel& model);

}  // namespace kpt::pass_runs
