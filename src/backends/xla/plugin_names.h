// How PJRT plugins are called as devices: "xla:cpu", "xla:cuda", "xla:rocm", or "xla:" and the plugin's own name.
#pragma once

#include <string>
#include <vector>

#include "device/hardware.h"

namespace kpt {

// The device name of each plugin, in order. Packages name theirs "xla_cpu_pjrt" or "xla_cuda13"; the first usable one
// of a kind gets the short name, further ones keep their own.
std::vector<std::string> name_xla_devices(const std::vector<PjrtPlugin>& plugins);

}  // namespace kpt
