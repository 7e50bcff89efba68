// Whether runs on an architecture can do what the options ask for.
#pragma once

#include "backends/nvidia/architecture.h"
#include "device/nvidia_policy.h"
#include "kpt/status.h"

namespace kpt {

// Fails with kUnsupported, naming the option. `has_nvtx`: of the engine's module.
Status check_nvidia_policy(const NvidiaPolicy& policy, const NvidiaArchitecture& architecture, bool has_nvtx);

}  // namespace kpt
