// What the driver's error codes mean for the user, and what mends them.
#pragma once

#include <string>
#include <string_view>

#include "device/hardware.h"

namespace kpt {

// Codes of cuInit and its like that this project treats apart.
constexpr int kCudaSuccess = 0;
constexpr int kCudaErrorNoDevice = 100;
// How the reason begins when a working driver has no GPU for this process.
constexpr std::string_view kNoGpuShown = "the driver shows no GPU to this process";

// A broken finding for `code`, returned by `call`. `name` is the driver's own name of the code
// ("CUDA_ERROR_NO_DEVICE"), which may be empty.
Finding explain_cuda_error(int code, const std::string& call, const std::string& name);

}  // namespace kpt
