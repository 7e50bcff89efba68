// Products by the fastest of cuBLASLt's algorithms and libtorch's own choice, found by measuring. The first run of a
// shape measures, which is never captured; what it finds holds for the process.
#pragma once

#include <ATen/core/Tensor.h>

#include "ir/own_operators.h"

namespace kpt::aten {

// As multiply_by_blas(). Algorithms that round partial sums to the result's type are left out.
void multiply_by_measured(at::Tensor& result, const at::Tensor& input, const at::Tensor& weight, const at::Tensor* bias,
                          const at::Tensor* residual, ir::Activation activation);

}  // namespace kpt::aten
