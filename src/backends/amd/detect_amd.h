// AMD GPUs of this machine: what the HIP runtime says; without it, the kernel's topology; without that, the PCI bus.
#pragma once

#include "device/detection_context.h"
#include "device/hardware.h"
#include "kpt/status.h"

namespace kpt {

// Asks the HIP runtime in a child process (kpt-probe amd), completes or replaces its answer by what the system's files
// say, and explains what is wrong, if anything. At most the context's time limit. Never fails: trouble is part of the
// report.
//
// A GPU that is there but cannot be used (no HIP runtime, no permission, a runtime that crashes) is listed, and the
// finding is broken. A runtime on a machine without an AMD GPU is absent.
AmdReport detect_amd(const DetectionContext& context);

// The same with the child's answer given.
AmdReport combine_amd(const DetectionContext& context, Result<AmdReport> probed);

}  // namespace kpt
