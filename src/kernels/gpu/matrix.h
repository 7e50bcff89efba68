// Matrix products on AMD's matrix cores: what a caller fills in. matrix_product.h has the kernel, the headers of the
// families matrix_* what limits it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "kernels/gpu/activation.h"
#include "kernels/gpu/launch.h"

namespace kpt::gpu {

// output[m][n] = activation(row_scale[m] · column_scale[n] · Σ input[m][k] · weight[n][k] + bias[n] + residual[m][n]):
// a linear layer. float16 and bfloat16 with sums in float32, int8 with sums in int32, FP8 with sums in float32.
struct MatrixCall {
  DType dtype = DType::kFloat16;  // of the input
  Activation activation{};
  const void* input = nullptr;          // [rows, depth]
  const void* weight = nullptr;         // [columns, depth], of the input's type; FP8 is always float8_e4m3fn
  const float* row_scale = nullptr;     // [rows]; null: 1
  const float* column_scale = nullptr;  // [columns]; null: 1
  const void* bias = nullptr;           // [columns], of `bias_dtype`; null: none
  DType bias_dtype = DType::kFloat32;
  const void* residual = nullptr;  // [rows, columns], contiguous, of the output's type; null: none. May be the output
  void* output = nullptr;          // [rows, columns], contiguous
  DType output_dtype = DType::kFloat16;  // float16, bfloat16 or float32; the bias too
  std::int64_t rows = 0, columns = 0, depth = 0;
  std::int64_t input_stride = 0, weight_stride = 0;  // elements between rows
};

// Types of inputs that a unit's instructions take.
std::span<const DType> matrix_types(MatrixUnit unit);
bool has_matrix_type(MatrixUnit unit, DType dtype);
// What an FP8 input is on a unit: float8_e4m3fnuz on CDNA3, float8_e4m3fn elsewhere. The kernel of CDNA3 takes
// float8_e4m3fn as well and reads it as the other, as it does with weights.
DType matrix_fp8_type(MatrixUnit unit);
// What the rows of an input are quantized to for a weight that is stored as int8 or float8_e4m3fn (kpt.linear_int8,
// kpt.linear_fp8); nothing for other weights, and where the unit has no instruction for their products.
std::optional<DType> find_row_type(DType weight, MatrixUnit unit);

// Fails with kMatrixUnit of AMD, whose units these are, when the device's has no kernel for the type.
Result<Plan> plan_matrix(const MatrixCall& call, const DeviceShape& device);

}  // namespace kpt::gpu
