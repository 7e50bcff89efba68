// Inner loops that exist once for each instruction set.
#pragma once

#include <cstdint>

#include "kernels/cpu/activation.h"
#include "kernels/cpu/cpu_features.h"

namespace kpt::kernels {

struct Attention;
struct AttentionPlan;
struct DepthwiseRow;
struct FewChannelsRow;

struct NormForm {
  const float* weight = nullptr;  // null: ones
  const float* bias = nullptr;    // null: zeros
  double epsilon = 0;
  bool centered = true;  // less the mean
};

struct SimdKernels {
  const char* name;  // "neon", "avx2", …
  void (*add_rows)(const float* a, const float* b, std::int64_t count, float* sum);
  void (*norm_row)(const float* row, std::int64_t count, const NormForm& form, float* normed);
  void (*attend)(const Attention& call, const AttentionPlan& plan, std::int64_t task, float* memory);
  void (*exp_of_nonpositive)(const float* values, std::int64_t count, float* results);  // count: a multiple of 16
  void (*activate)(Activation activation, float* values, std::int64_t count);           // in place
  void (*sum_depthwise)(const DepthwiseRow& row);
  void (*sum_few_channels)(const FewChannelsRow& row);
};

// The fastest that the processor offers.
const SimdKernels& simd_kernels(CpuFeatures features = cpu_features());

// One per file simd_<name>.cpp.
const SimdKernels& baseline_kernels();
#if defined(__x86_64__)
const SimdKernels& avx2_kernels();
const SimdKernels& avx512_kernels();
#endif

}  // namespace kpt::kernels
