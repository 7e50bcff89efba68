// Starts kernels on an NVIDIA GPU in AMD's waves of 64 lanes (cuda_wave64_lane.h). In tests alone.
#pragma once

#include <memory>

#include "kernels/gpu/launch.h"

namespace kpt::gpu {

// Otherwise as make_cuda_launcher().
Result<std::unique_ptr<Launcher>> make_cuda_wave64_launcher(int device);

}  // namespace kpt::gpu
