// Nodes of our own operators that need nothing of a vendor but launches (gpu_launch.h) and libtorch's operators: the
// modules for GPUs share them. own_nodes.h says what a node is.
#pragma once

#include <initializer_list>
#include <memory>
#include <optional>

#include "engines/aten/module/own_nodes.h"
#include "ir/own_operators.h"

namespace kpt::aten {

// What most of them compute in.
inline constexpr std::initializer_list<DType> kGpuReals = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};

Result<std::unique_ptr<OwnNode>> bind_gpu_add_norm(const OwnBinding& binding);
Result<std::unique_ptr<OwnNode>> bind_gpu_glu(const OwnBinding& binding);
Result<std::unique_ptr<OwnNode>> bind_gpu_linear(const OwnBinding& binding);  // by multiply_by_blas()
Result<std::unique_ptr<OwnNode>> bind_gpu_linear_int4(const OwnBinding& binding);
Result<std::unique_ptr<OwnNode>> bind_gpu_linear_weight_int8(const OwnBinding& binding);
Result<std::unique_ptr<OwnNode>> bind_gpu_rotary(const OwnBinding& binding);

// What a product with a weight of few bits starts from: weight, scale and bias contiguous, the others as they come.
struct ScaledLinear {
  // Of the operators' arguments; the last is that of kpt.linear_int4 alone.
  enum Position : std::size_t { kInput, kWeight, kScale, kBias, kResidual, kActivation, kGroup };

  const at::Tensor* input;
  at::Tensor weight;  // [columns, …]
  at::Tensor scale;   // [columns, …]
  std::optional<at::Tensor> bias;
  const at::Tensor* residual;  // null: none
  at::Tensor* result;          // of the input's sizes but for the last

  std::int64_t columns() const { return weight.size(0); }
  const at::Tensor* find_bias() const { return bias ? &*bias : nullptr; }
};

// Asks for the result. Throws when the sizes do not fit each other; `codes` are the weight's numbers in an element.
ScaledLinear take_scaled_linear(OwnCall& call, std::int64_t codes = 1);

// rows = activation(rows + bias + residual), in place, where rows are the last axis of `result`, which is contiguous
// along it. bias and residual may be null.
void finish_product(at::Tensor& result, const at::Tensor* bias, const at::Tensor* residual, ir::Activation activation);

// result = activation(input · weightᵀ + bias + residual) by the vendor's library behind libtorch, in the weight's type,
// with what its epilogues can do in them and the rest by finish_product(). `result` is contiguous, has the input's
// sizes but for the last and is of the weight's type or float32; the bias is of one of these.
void multiply_by_blas(at::Tensor& result, const at::Tensor& input, const at::Tensor& weight, const at::Tensor* bias,
                      const at::Tensor* residual, ir::Activation activation);

// Nodes of kpt.linear by another function that does the same; `description` is what plans say of it.
using Multiply = decltype(&multiply_by_blas);
Result<std::unique_ptr<OwnNode>> bind_gpu_linear_by(const OwnBinding& binding, Multiply multiply,
                                                    std::string description);

}  // namespace kpt::aten
