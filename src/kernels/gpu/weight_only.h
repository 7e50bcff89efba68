// Products with weights of 8 or 4 bits on a GPU, where inputs stay as they are: what a caller fills in.
// weight_only_kernels.h has the kernels and what limits them.
#pragma once

#include <cstdint>

#include "kernels/gpu/activation.h"
#include "kernels/gpu/launch.h"

namespace kpt::gpu {

// More rows are for matrix cores, with the weight written out (plan_convert, plan_unpack_int4).
inline constexpr std::int64_t kMostWeightOnlyRows = 8;

// output[row][column] = activation(Σ input[row][k] · weight[column][k] · scale + bias[column] + residual[row][column]),
// sums in float32. Floats are float32, float16 or bfloat16, each tensor of its own type.
struct WeightOnlyCall {
  const void* input = nullptr;
  DType input_dtype = DType::kFloat32;
  std::int64_t input_stride = 0;      // elements between rows
  const void* weight = nullptr;       // contiguous
  DType weight_dtype = DType::kInt8;  // kInt8 [columns, depth]; kUInt8 [columns, depth / 2]: element 2j in the low four
                                      // bits of a byte, value - 8
  const float* scale = nullptr;       // [columns]; with weights of 4 bits [columns, depth / group]
  std::int64_t group = 0;             // of weights of 4 bits; divides the depth
  const void* bias = nullptr;         // [columns]; null: none
  DType bias_dtype = DType::kFloat32;
  const void* residual = nullptr;  // [rows, columns]; null: none. May be the output
  DType residual_dtype = DType::kFloat32;
  std::int64_t residual_stride = 0;
  void* output = nullptr;  // [rows, columns], contiguous
  DType output_dtype = DType::kFloat32;
  Activation activation{};
  std::int64_t rows = 0, columns = 0, depth = 0;  // at most kMostWeightOnlyRows rows
};
Result<Plan> plan_weight_only(const WeightOnlyCall& call, const DeviceShape& device);

// Weights of 4 bits times their scales, as floats.
struct UnpackInt4Call {
  const void* input = nullptr;  // contiguous, as the output
  void* output = nullptr;
  DType to = DType::kBFloat16;
  const float* scale = nullptr;
  std::int64_t count = 0;  // elements; even
  std::int64_t group = 0;  // so many share a scale
};
Result<Plan> plan_unpack_int4(const UnpackInt4Call& call, const DeviceShape& device);

}  // namespace kpt::gpu
