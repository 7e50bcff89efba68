// Nodes of our own operators on NVIDIA GPUs; module/own_nodes.h says what a node is.
#pragma once

#include <memory>
#include <string>

#include "engines/aten/module/own_nodes.h"
#include "ir/own_operators.h"

namespace kpt::aten {

Result<std::unique_ptr<OwnNode>> bind_cuda_add_norm(const OwnBinding& binding);
Result<std::unique_ptr<OwnNode>> bind_cuda_attention(const OwnBinding& binding);
Result<std::unique_ptr<OwnNode>> bind_cuda_conv2d(const OwnBinding& binding);
Result<std::unique_ptr<OwnNode>> bind_cuda_glu(const OwnBinding& binding);
Result<std::unique_ptr<OwnNode>> bind_cuda_linear(const OwnBinding& binding);
Result<std::unique_ptr<OwnNode>> bind_cuda_linear_fp8(const OwnBinding& binding);
Result<std::unique_ptr<OwnNode>> bind_cuda_linear_int4(const OwnBinding& binding);
Result<std::unique_ptr<OwnNode>> bind_cuda_linear_weight_int8(const OwnBinding& binding);
Result<std::unique_ptr<OwnNode>> bind_cuda_rotary(const OwnBinding& binding);

// rows = activation(rows + bias + residual), in place, where rows are the last axis of `result`, which is contiguous
// along it. bias and residual may be null.
void finish_product(at::Tensor& result, const at::Tensor* bias, const at::Tensor* residual, ir::Activation activation);

// result = activation(input · weightᵀ + bias + residual) by cuBLAS, in the weight's type, with what its epilogues can
// do in them and the rest by finish_product(). `result` is contiguous, has the input's sizes but for the last and is of
// the weight's type or float32; the bias is of one of these.
void multiply_by_cublas(at::Tensor& result, const at::Tensor& input, const at::Tensor& weight, const at::Tensor* bias,
                        const at::Tensor* residual, ir::Activation activation);

}  // namespace kpt::aten
