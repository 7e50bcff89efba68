// What the kernels of norms are given, and what all of them do.
#pragma once

#include "kernels/gpu/simt.h"

namespace kpt::gpu {

// sum = input + residual; normed = norm(sum) · weight + bias. All tensors are of the kernel's type; weight and bias may
// be float32. sum, normed: rows without gaps. Whatever is null is not there or not wanted.
struct NormArgs {
  const void* input;
  const void* residual;
  const void* weight;
  const void* bias;
  void* normed;
  void* sum;
  float* mean;   // [rows]: what the backward pass needs
  float* scale;  // [rows]: 1 / deviation
  Int64 rows, width;
  Int64 input_stride, residual_stride;  // elements between rows
  float epsilon;
  Int32 centered;  // LayerNorm, else RMSNorm
  Int32 weight_is_float, bias_is_float;
  Int32 row_threads;  // norm_narrow: lanes that share a row
  Int32 threads;
};

KPT_DEVICE void store_statistics(const NormArgs& a, Int64 row, bool first, float mean, float scale) {
  if (!first) return;
  if (a.mean != nullptr) a.mean[row] = mean;
  if (a.scale != nullptr) a.scale[row] = scale;
}

}  // namespace kpt::gpu
