// How PJRT plugins are called as devices: "xla:cpu", "xla:cuda", "xla:rocm", or "xla:" and the plugin's own name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "device/hardware.h"

namespace kpt {

// The device name of each plugin, in order. Packages name theirs "xla_cpu_pjrt" or "xla_cuda13"; the first usable one
// of a kind gets the short name, further ones keep their own.
std::vector<std::string> name_xla_devices(const std::vector<PjrtPlugin>& plugins);

// "cpu", "cuda" and "rocm" for all plugins of that kind, else the plugin's own name. What a device is called depends on
// plugins of its own kind alone, and that the first usable one has the short name on none behind it. Of a device's name
// without "xla:" it is the kind of its plugin.
std::string plugin_kind(std::string_view plugin);

}  // namespace kpt
