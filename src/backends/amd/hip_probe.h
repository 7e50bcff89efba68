// Asks the HIP runtime what is there. Needs no ROCm to build: the library is opened at run time and the few functions
// declared by ourselves.
#pragma once

#include <string>
#include <vector>

#include "backends/amd/hip_api.h"
#include "device/hardware.h"

namespace kpt {

// Runs in the kpt-probe child: HIP runtimes are known to abort on GPUs newer than themselves. Opens the first of
// `libraries` that is there.
//  - none: absent, with the reason;
//  - it cannot be loaded, refuses or shows no GPU: broken, with the reason;
//  - a single question refused: a note and an empty value.
// Compute units are left at 0: HIP's attribute numbers changed between versions, the kernel tells them reliably.
AmdReport probe_hip_runtime(const std::vector<std::string>& libraries = hip_library_names());

}  // namespace kpt
