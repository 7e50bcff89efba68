// Finds libtpu, the TPU's compiler and runtime, without opening it: only its path, its version and the processor it is
// made for. Opening it would take a lock and could wait for a metadata server.
#pragma once

#include <string>
#include <vector>

#include "device/detection_context.h"

namespace kpt {

struct Libtpu {
  std::string path;          // empty: not found
  std::string version;       // of the Python package it came with; empty when that is not there
  std::string architecture;  // "x86_64"; empty when the file cannot be read as a library
  std::string problem;       // one sentence when the file cannot be a usable library
};

// Takes the first plugin named "tpu" in the search order of engines/xla/pjrt/plugin_search.h.
Libtpu find_libtpu(const DetectionContext& context);

}  // namespace kpt
