// NVIDIA GPUs as devices "nvidia:0", "nvidia:1", …, through libtorch's CUDA library.
#pragma once

#include <memory>

#include "device/backend_context.h"
#include "device/execution.h"

namespace kpt {

// Opens nothing yet. Targets are there without any GPU: "nvidia:sm_90" and the other architectures that libtorch has
// code for.
std::unique_ptr<Backend> make_nvidia_backend(const BackendContext& context);

// Whether there is a target for GPUs of this compute capability.
bool has_nvidia_target(int capability_major, int capability_minor);

}  // namespace kpt
