// Casts, numbers of 8 bits with scales, and transposes on a GPU: what a caller fills in. convert_kernels.h,
// quantize_kernels.h and transpose_kernels.h have the kernels and what limits them.
//
// Scales: real value = stored number · scale. FP8 saturates and keeps NaN; int8 saturates at ±127.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/gpu/launch.h"

namespace kpt::gpu {

// Between float32, float16 and bfloat16 without scale; from these to int8 or FP8 (divides by the scale); and back
// (multiplies by it).
struct ConvertCall {
  DType from = DType::kFloat32;
  DType to = DType::kBFloat16;
  const void* input = nullptr;  // contiguous, as the output
  void* output = nullptr;
  std::int64_t count = 0;
  const float* scale = nullptr;  // on the device; needed with 8-bit numbers and refused without
  std::int64_t row_width = 0;    // so many elements share a scale; 0: all
};
Result<Plan> plan_convert(const ConvertCall& call, const DeviceShape& device);

// To int8 or FP8 with a scale for each row, which the kernel finds and writes. A row of zeros has scale 1. NaN makes
// the scale of an int8 row NaN.
struct QuantizeRowsCall {
  DType from = DType::kFloat32;
  DType to = DType::kInt8;
  const void* input = nullptr;
  void* output = nullptr;  // contiguous
  float* scale = nullptr;  // [rows]
  std::int64_t rows = 0, width = 0;
  std::int64_t input_stride = 0;  // elements between rows
};
Result<Plan> plan_quantize_rows(const QuantizeRowsCall& call, const DeviceShape& device);

// The largest finite magnitude of a tensor, and the scale that maps it to the largest number of an FP8 type.
struct TensorScaleCall {
  DType from = DType::kFloat32;
  DType to = DType::kFloat8E4M3FN;
  const void* input = nullptr;  // contiguous
  std::int64_t count = 0;
  float* largest = nullptr;   // on the device; null: not wanted
  float* scale = nullptr;     // on the device; null: not wanted
  void* workspace = nullptr;  // tensor_scale_workspace() bytes, aligned to 16
};
std::size_t tensor_scale_workspace(const TensorScaleCall& call, const DeviceShape& device);
Result<Plan> plan_tensor_scale(const TensorScaleCall& call, const DeviceShape& device);

// A ring of the greatest finite magnitudes of the last `capacity` runs, on the device: zeros at first, with position 0.
// Launches change it, so runs that share one must follow each other on a stream. scale_history.h is the same in plain
// C++.
struct MagnitudeHistory {
  float* magnitudes = nullptr;       // [capacity]; null: no history
  std::int32_t* position = nullptr;  // of the oldest
  std::int32_t capacity = 0;
  bool begun = false;  // a run is in it
};

// To E4M3 or E5M2 with one scale for the whole tensor. Without a history, or where none has begun, it maps the tensor's
// greatest finite magnitude to the type's largest number; with one, the greatest of the remembered runs, and what is
// beyond it saturates. This run is remembered after it was rounded.
struct QuantizeTensorCall {
  DType from = DType::kFloat32;
  DType to = DType::kFloat8E4M3FN;  // or kFloat8E5M2, which AMD GPUs have no kernel for
  const void* input = nullptr;
  void* output = nullptr;  // contiguous
  float* scale = nullptr;  // [rows], the same in each, as products with a scale per row take it
  std::int64_t rows = 0, width = 0;
  std::int64_t input_stride = 0;  // elements between rows: `width` unless a history has begun
  MagnitudeHistory history = {};
  void* workspace = nullptr;  // quantize_tensor_workspace() bytes, aligned to 16
};
std::size_t quantize_tensor_workspace(const QuantizeTensorCall& call, const DeviceShape& device);
Result<Plan> plan_quantize_tensor(const QuantizeTensorCall& call, const DeviceShape& device);

// output[b][c][r] = input[b][r][c], converted. Same types of 1, 2 or 4 bytes are moved as bits; float32 to and from
// float16 and bfloat16; from these three to FP8, divided by `scale`.
struct TransposeCall {
  DType from = DType::kFloat32;
  DType to = DType::kFloat32;
  const void* input = nullptr;
  void* output = nullptr;
  const float* scale = nullptr;  // on the device; needed when numbers become FP8, refused otherwise
  std::int64_t batches = 1, rows = 0, columns = 0;
  std::int64_t input_stride = 0, output_stride = 0;              // elements between rows
  std::int64_t input_batch_stride = 0, output_batch_stride = 0;  // elements between matrices
};
Result<Plan> plan_transpose(const TransposeCall& call, const DeviceShape& device);

}  // namespace kpt::gpu
