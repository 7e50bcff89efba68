// Finds libtpu, the TPU's compiler and runtime, without opening it in this process: that would take a lock and could
// wait for a metadata server.
#pragma once

#include <string>
#include <vector>

#include "device/detection_context.h"
#include "device/hardware.h"
#include "engines/xla/pjrt/detect_plugins.h"

namespace kpt {

// What its files tell.
struct Libtpu {
  std::string path;          // empty: not found
  std::string version;       // of the Python package it came with; empty when that is not there
  std::string architecture;  // "x86_64"; empty when the file cannot be read as a library
  std::string problem;       // one sentence when the file cannot be a usable library
};

// Takes the first plugin named "tpu" in the search order of engines/xla/pjrt/plugin_search.h.
Libtpu find_libtpu(const DetectionContext& context);

// What brings a libtpu for this host where `found` is none or none that can be used.
std::string libtpu_remedy(const DetectionContext& context, const Libtpu& found);

// What it says of itself when it is opened by `probe`, which is not in this process: detection alone does not see that
// it crashes, hangs, does not initialise or speaks another version. kAbsent where it is not installed.
PjrtPlugin ask_libtpu(const DetectionContext& context, const PluginProbe& probe);

}  // namespace kpt
