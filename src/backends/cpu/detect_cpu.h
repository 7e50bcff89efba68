// What the host processor is and how much of it this process has.
#pragma once

#include "device/detection_context.h"
#include "device/hardware.h"

namespace kpt {

// Reads files below /proc and /sys and this process's affinity mask; starts nothing, never fails: what cannot be read
// stays empty and is named in `notes`. Takes about a millisecond.
CpuReport detect_cpu(const DetectionContext& context);

}  // namespace kpt
