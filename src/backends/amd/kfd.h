// GPUs as the amdgpu kernel driver lists them below /sys/class/kfd/kfd/topology/nodes. Needs no ROCm.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/files.h"
#include "device/hardware.h"

namespace kpt {

struct KfdTopology {
  bool present = false;  // the kernel has the topology, with or without GPUs
  std::vector<AmdGpu> gpus;
  std::vector<std::string> notes;  // what could not be read or made no sense
};

// Reads every node; CPUs are passed over. A truncated or garbled file costs its fields, and a note says which; a GPU
// whose properties cannot be read at all is left out.
KfdTopology read_kfd_topology(const SystemFiles& files);

}  // namespace kpt
