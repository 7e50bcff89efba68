// How runs on NVIDIA GPUs compute, and what they tell profilers.
#pragma once

namespace kpt {

struct NvidiaPolicy {
  bool nvtx = false;  // option nvidia.nvtx
};

}  // namespace kpt
