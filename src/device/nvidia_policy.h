// How runs on NVIDIA GPUs compute, and what they tell profilers.
#pragma once

#include <cstdint>

namespace kpt {

// How inputs of FP8 products are scaled: each row by its own greatest magnitude, the tensor by its own, or the tensor
// by the greatest of earlier runs.
enum class Fp8Scaling : std::uint8_t { kRow, kTensor, kDelayed };

struct NvidiaPolicy {
  bool nvtx = false;                          // option nvidia.nvtx
  bool tf32 = false;                          // option nvidia.tf32
  bool tune_products = false;                 // option nvidia.tune
  bool tune_convolutions = false;             // option nvidia.tune
  Fp8Scaling fp8_scaling = Fp8Scaling::kRow;  // option nvidia.fp8_scaling
  std::int32_t fp8_history = 16;              // option nvidia.fp8_history: runs, with kDelayed
};

}  // namespace kpt
