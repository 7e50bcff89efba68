// Starts kernels on an NVIDIA GPU. Compiled by nvcc into kpt_kernels_gpu_cuda; no header of CUDA's is needed to use it.
#pragma once

#include <memory>

#include "kernels/gpu/launch.h"

namespace kpt::gpu {

// For the GPU of that number. stream in launch(): a cudaStream_t of this device, or null for its default stream. A
// launch returns when the kernel is queued; it may be captured into a graph. Several threads may use one launcher with
// streams of their own; each must have made the device its current one. Fails with kDeviceNotAvailable.
Result<std::unique_ptr<Launcher>> make_cuda_launcher(int device);

}  // namespace kpt::gpu
