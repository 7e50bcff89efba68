// Where PJRT plugins are looked for. Only paths: nothing is opened here.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "device/detection_context.h"

namespace kpt {

constexpr std::string_view kTpuPluginName = "tpu";  // libtpu's name in every convention

struct PluginCandidate {
  std::string name;
  std::filesystem::path path;
  std::string source;  // "environment", "config" or "python environment"
  std::string note;    // which other path for this name was passed over; usually empty
  std::string fault;   // why this entry cannot be a plugin at all; `path` is empty then
};

// The candidates, each name once, in the order found. The first path for a name wins:
//   1. environment: PJRT_NAMES_AND_LIBRARY_PATHS ("name:path,name:path"), then TPU_LIBRARY_PATH (name "tpu")
//   2. config: option pjrt.plugins, each "name=path"
//   3. Python environments in the context's order: libtpu/libtpu.so (name "tpu"), then xla_plugins/<name>/*.so, then
//      jax_plugins/<name>/*.so
// Paths of steps 1 and 2 may not exist; whoever opens them says so. At most 64 candidates.
std::vector<PluginCandidate> find_plugins(const DetectionContext& context);

}  // namespace kpt
