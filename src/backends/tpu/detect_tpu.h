// Which TPU chips this host has and whether they can be used.
#pragma once

#include "device/detection_context.h"
#include "device/hardware.h"

namespace kpt {

// Looks at the PCI bus, the device nodes, the variables of TPU virtual machines and the files of libtpu. Opens no
// vendor library and asks no metadata server, so it takes milliseconds. Never fails.
//
// kPresent: chips with a node that can be opened, and a libtpu for this host's processor.
// kBroken:  signs of chips, but no node, no permission, or no libtpu; `remedy` says what to do.
// kAbsent:  no sign of chips. With libtpu installed a note says that programs can still be compiled for TPUs.
TpuReport detect_tpu(const DetectionContext& context);

}  // namespace kpt
