// LayerNorm and RMSNorm on a GPU: what a caller fills in. norm_kernels.h has the kernels and what limits them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/gpu/launch.h"

namespace kpt::gpu {

enum class NormKind : std::uint8_t { kLayer, kRms };

// sum = input + residual; normed = norm(sum) · weight + bias. Memory is the device's; nothing is owned. Tensors of
// float32, float16 or bfloat16, all of `dtype`; weight and bias may be float32. Sums are in float32.
struct NormCall {
  DType dtype = DType::kFloat32;
  NormKind kind = NormKind::kLayer;
  const void* input = nullptr;
  const void* residual = nullptr;  // null: none
  const void* weight = nullptr;    // [width]; null: ones
  const void* bias = nullptr;      // [width]; null: zeros
  DType weight_dtype = DType::kFloat32;
  DType bias_dtype = DType::kFloat32;
  void* normed = nullptr;  // contiguous; null: not wanted
  void* sum = nullptr;     // contiguous; null: not wanted
  float* mean = nullptr;   // [rows], for the backward pass; null: not wanted
  float* scale = nullptr;  // [rows], 1 / deviation; null: not wanted
  std::int64_t rows = 0;
  std::int64_t width = 0;
  std::int64_t input_stride = 0;  // elements between rows
  std::int64_t residual_stride = 0;
  float epsilon = 0;
};

// How rows that are held in registers are given to threads.
struct NormLayout {
  int accesses = 4;     // of 16 bytes, that a thread has of its row: 4, or 2 with a residual; backward 4 or 1
  int row_threads = 0;  // threads that share a row: a multiple of the wave; a power of two up to it where rows > 1
  int threads = 0;      // of a block: a multiple of row_threads; a block has threads / row_threads rows at once
  int blocks = 0;  // backward: on each multiprocessor, walking over the rows; forward 0: every row has its own threads
  int rows = 1;    // that a thread has at once, with 1 access each: 2 or 4, as the kernels are
  int stages = 0;  // backward: rows in shared memory or on their way there, 1 to 3; then 3 or 4 accesses. 0: none
};

// What plan_norm() takes where rows fit registers and can be read by 16 bytes.
NormLayout norm_layout(const NormCall& call, const DeviceShape& device);
Result<Plan> plan_norm(const NormCall& call, const DeviceShape& device);
// With a layout of one's own, for measurements. Fails where it does not fit; has no effect where rows are not held.
Result<Plan> plan_norm(const NormCall& call, const DeviceShape& device, const NormLayout& layout);

// The gradients of normed and sum come in, those of input (the residual's is the same), weight and bias go out.
struct NormBackwardCall {
  DType dtype = DType::kFloat32;
  NormKind kind = NormKind::kLayer;
  const void* gradient = nullptr;  // of normed, contiguous
  const void* input = nullptr;     // the norm's input: the sum, contiguous
  const void* weight = nullptr;    // null: ones
  DType weight_dtype = DType::kFloat32;
  const float* mean = nullptr;  // as plan_norm() left them
  const float* scale = nullptr;
  const void* sum_gradient = nullptr;  // of sum, contiguous; null: none
  void* input_gradient = nullptr;      // contiguous
  void* weight_gradient = nullptr;     // [width], of weight_dtype; null: not wanted
  void* bias_gradient = nullptr;       // [width], of weight_dtype; null: not wanted
  std::int64_t rows = 0;
  std::int64_t width = 0;
  void* workspace = nullptr;  // norm_backward_workspace() bytes, aligned to 16
};

NormLayout norm_layout(const NormBackwardCall& call, const DeviceShape& device);
std::size_t norm_backward_workspace(const NormBackwardCall& call, const DeviceShape& device);
Result<Plan> plan_norm_backward(const NormBackwardCall& call, const DeviceShape& device);
// As for plan_norm().
std::size_t norm_backward_workspace(const NormBackwardCall& call, const DeviceShape& device, const NormLayout& layout);
Result<Plan> plan_norm_backward(const NormBackwardCall& call, const DeviceShape& device, const NormLayout& layout);

}  // namespace kpt::gpu
