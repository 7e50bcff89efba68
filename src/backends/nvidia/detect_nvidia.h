// NVIDIA GPUs of this machine: what the driver says, completed by what the system's files say.
#pragma once

#include "device/detection_context.h"
#include "device/hardware.h"
#include "kpt/status.h"

namespace kpt {

// Asks the driver in a child process (kpt-probe nvidia) and explains what is wrong, if anything. Takes as long as the
// driver, at most the context's time limit. Never fails: trouble is part of the report.
//
// Absent means that neither a driver that works nor an NVIDIA device was found. A library without any hardware (an
// image for GPUs on a machine without one) is absent too, and the reason says so.
NvidiaReport detect_nvidia(const DetectionContext& context);

// The same with the child's answer given.
NvidiaReport combine_nvidia(const DetectionContext& context, Result<NvidiaReport> probed);

}  // namespace kpt
