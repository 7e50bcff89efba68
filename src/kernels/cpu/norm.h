// Normalisation over the last axis, with the sum of two tensors before it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/rows.h"

namespace kpt::kernels {

enum class NormKind : std::uint8_t { kLayer, kRms };

// sum = input + residual; normed = norm(sum) · weight + bias. All tensors are of the type of `input`, weight and bias
// may also be float32; the arithmetic is in float32, totals of long rows in float64.
struct AddNorm {
  Rows input;
  Rows residual;                 // data null: none
  const void* weight = nullptr;  // [width], contiguous; null: ones
  const void* bias = nullptr;    // likewise; null: zeros
  DType weight_dtype = DType::kFloat32;
  DType bias_dtype = DType::kFloat32;
  double epsilon = 0;
  NormKind kind = NormKind::kLayer;
  void* normed = nullptr;  // contiguous; null: not wanted
  void* sum = nullptr;     // contiguous; null: not wanted
};

// Bytes of memory, aligned to 64, that run_add_norm() needs for so many threads.
std::size_t add_norm_workspace(const AddNorm& call, int threads);
void run_add_norm(const AddNorm& call, const Parallel& parallel, void* workspace);

}  // namespace kpt::kernels
