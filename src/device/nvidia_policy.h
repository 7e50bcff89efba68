// How runs on NVIDIA GPUs compute, and what they tell profilers.
#pragma once

#include <cstdint>

#include "device/fp8_inputs.h"

namespace kpt {

struct NvidiaPolicy {
  bool nvtx = false;                          // option nvidia.nvtx
  bool tf32 = false;                          // option nvidia.tf32
  bool tune_products = false;                 // option nvidia.tune
  bool tune_convolutions = false;             // option nvidia.tune
  Fp8Scaling fp8_scaling = Fp8Scaling::kRow;  // option nvidia.fp8_scaling
  std::int32_t fp8_history = 16;              // option nvidia.fp8_history: runs, with kDelayed
  Fp8Inputs fp8_inputs = Fp8Inputs::kE4M3;    // option nvidia.fp8_activations, for passes alone: graphs say the rest
};

}  // namespace kpt
