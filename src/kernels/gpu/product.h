// Products of matrices with any strides on a GPU: what a caller fills in. product_kernels.h has the kernel and what
// limits it; matrix.h has the one for matrix cores.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/gpu/activation.h"
#include "kernels/gpu/launch.h"

namespace kpt::gpu {

// [batches, lines, depth]. A line is a row of the result (left) or a column of it (right). Strides are in elements; 0
// where batches share a matrix.
struct ProductSide {
  const void* data = nullptr;
  DType dtype = DType::kFloat32;
  std::array<std::int64_t, 3> batch_strides{};
  std::int64_t line_stride = 0;
  std::int64_t depth_stride = 1;
};

// output[row][column] = activation(scale · Σ left[row][k] · right[column][k] + bias[column] + residual[row][column]).
// All tensors are float32 or of one other type among float16 and bfloat16. Sums are in float32.
struct ProductCall {
  ProductSide left, right;
  Activation activation{};
  float scale = 1;
  const void* bias = nullptr;  // [columns]; null: none
  DType bias_dtype = DType::kFloat32;
  const void* residual = nullptr;  // of the output's type and strides; null: none. May be the output
  void* output = nullptr;          // [batches, rows, columns], columns without gaps
  DType output_dtype = DType::kFloat32;
  std::array<std::int64_t, 3> output_batch_strides{};
  std::int64_t output_row_stride = 0;
  std::array<std::int64_t, 3> batches{1, 1, 1};
  std::int64_t rows = 0, columns = 0, depth = 0;
};

Result<Plan> plan_product(const ProductCall& call, const DeviceShape& device);

}  // namespace kpt::gpu
