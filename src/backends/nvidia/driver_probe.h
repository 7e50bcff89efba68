// Asks the NVIDIA driver what is there. Needs no CUDA toolkit: the libraries are opened at run time and the few
// functions declared by ourselves.
#pragma once

#include <string>

#include "device/hardware.h"

namespace kpt {

// Runs in the kpt-probe child, because the driver may hang or crash. Never throws for what the driver does.
//  - no driver library: absent, with the reason;
//  - the driver refuses, shows no GPU or is too old: broken, with reason and remedy (GPUs it still lists are in the
//    report);
//  - NVML missing or a single question refused: a note and an absent value.
NvidiaReport probe_nvidia_driver(const std::string& cuda_library = "libcuda.so.1",
                                 const std::string& nvml_library = "libnvidia-ml.so.1");

}  // namespace kpt
