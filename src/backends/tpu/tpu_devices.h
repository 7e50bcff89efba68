// TPU chips and their device nodes as the kernel shows them.
#pragma once

#include <string>
#include <vector>

#include "backends/tpu/architecture.h"
#include "base/files.h"

namespace kpt {

struct TpuNode {
  std::string path;       // "/dev/accel0", "/dev/vfio/3"
  bool can_open = false;  // for reading and writing
};

struct TpuDevices {
  const TpuGeneration* generation = nullptr;  // of the chips on the PCI bus; nullptr when none is known
  int known_chips = 0;                        // on the PCI bus, of that generation
  std::vector<std::string> unknown_ids;       // Google devices that may be TPUs: "0x0056" or "0x0027/0x0000"
  std::vector<TpuNode> nodes;
  std::vector<std::string> notes;
};

// Reads the PCI bus and /dev. Nodes below /dev/vfio serve any device that is handed to a user program, so they count
// only where they belong to a Google device.
TpuDevices find_tpu_devices(const SystemFiles& files);

}  // namespace kpt
