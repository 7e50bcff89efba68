// How runs on NVIDIA GPUs compute, and what they tell profilers.
#pragma once

namespace kpt {

struct NvidiaPolicy {
  bool nvtx = false;  // option nvidia.nvtx
  bool tf32 = false;  // option nvidia.tf32
};

}  // namespace kpt
