// Gated activations, and bias with activation, on a GPU: what a caller fills in. activation_kernels.h and
// scaled_product_kernels.h have the kernels.
#pragma once

#include <cstdint>

#include "kernels/gpu/launch.h"

namespace kpt::gpu {

enum class Activation : std::int32_t;  // device_math.h; in the order of ir::Activation

// output = activation(gate) · up: SwiGLU with silu, GeGLU with gelu. float32, float16, bfloat16. Where both are halves
// of one tensor's rows: up = gate + width, both strides 2 · width.
struct GatedCall {
  DType dtype = DType::kFloat32;
  Activation activation{};
  const void* gate = nullptr;
  const void* up = nullptr;
  void* output = nullptr;  // contiguous
  std::int64_t rows = 0, width = 0;
  std::int64_t gate_stride = 0, up_stride = 0;  // elements between rows
};
Result<Plan> plan_gated(const GatedCall& call, const DeviceShape& device);

// output = activation(input + bias + residual), as kpt.linear and kpt.conv2d end.
struct BiasCall {
  DType dtype = DType::kFloat32;
  Activation activation{};
  const void* input = nullptr;
  const void* bias = nullptr;  // [width], of `bias_dtype`; null: none
  DType bias_dtype = DType::kFloat32;
  const void* residual = nullptr;  // null: none
  void* output = nullptr;          // contiguous; may be the input when that is contiguous
  std::int64_t rows = 0, width = 0;
  std::int64_t input_stride = 0, residual_stride = 0;
};
Result<Plan> plan_bias_activation(const BiasCall& call, const DeviceShape& device);

// The same with input = sums · row_scale · column_scale, as products of int8 end. Only CUDA and the host have kernels
// for it.
struct ScaledProductCall {
  DType dtype = DType::kFloat32;  // of output and residual
  Activation activation{};
  const std::int32_t* sums = nullptr;
  const float* row_scale = nullptr;     // [rows]
  const float* column_scale = nullptr;  // [width]
  const void* bias = nullptr;           // [width], of `bias_dtype`; null: none
  DType bias_dtype = DType::kFloat32;
  const void* residual = nullptr;  // null: none
  void* output = nullptr;          // contiguous
  std::int64_t rows = 0, width = 0;
  std::int64_t sum_stride = 0, residual_stride = 0;  // elements between rows
};
Result<Plan> plan_scaled_product(const ScaledProductCall& call, const DeviceShape& device);

}  // namespace kpt::gpu
