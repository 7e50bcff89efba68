// Matrix products on AMD's matrix cores: what a caller fills in. matrix_kernels.h has the kernels and what limits them.
#pragma once

#include <cstdint>

#include "kernels/gpu/activation.h"
#include "kernels/gpu/launch.h"

namespace kpt::gpu {

// output[m][n] = activation(Σ input[m][k] · weight[n][k] + bias[n]): a linear layer. float16 or bfloat16, sums in
// float32. Only for wavefronts of 64 with the instructions that kernel_families() names for the family "matrix".
struct MatrixCall {
  DType dtype = DType::kFloat16;
  Activation activation{};
  const void* input = nullptr;   // [rows, depth]
  const void* weight = nullptr;  // [columns, depth]
  const void* bias = nullptr;    // [columns], of `bias_dtype`; null: none
  DType bias_dtype = DType::kFloat32;
  void* output = nullptr;  // [rows, columns], contiguous
  std::int64_t rows = 0, columns = 0, depth = 0;
  std::int64_t input_stride = 0, weight_stride = 0;  // elements between rows
};

// Fails with kUnsupported when the device's waves have 32 lanes.
Result<Plan> plan_matrix(const MatrixCall& call, const DeviceShape& device);

}  // namespace kpt::gpu
