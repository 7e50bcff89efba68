// Whether runs on an architecture can do what the options ask for.
#pragma once

#include <string>

#include "backends/nvidia/architecture.h"
#include "device/nvidia_policy.h"
#include "kpt/status.h"

namespace kpt {

// Fails with kMatrixUnit for numbers that the matrix units lack and with kUnsupported for what the build lacks, naming
// the option. `has_nvtx`: of the engine's module.
Status check_nvidia_policy(const NvidiaPolicy& policy, const NvidiaArchitecture& architecture, bool has_nvtx);

// What of it changes what runs compute; empty where nothing does.
std::string describe_arithmetic(const NvidiaPolicy& policy);

}  // namespace kpt
