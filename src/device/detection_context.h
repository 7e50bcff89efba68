// What detection may look at. Production fills it from the process and the configuration, tests from a recorded
// machine.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "base/environment.h"
#include "base/files.h"
#include "device/probe_process.h"

namespace kpt {

struct DetectionContext {
  SystemFiles files;
  Environment environment;
  std::chrono::milliseconds probe_time_limit{10000};
  std::vector<std::string> hidden_isa;               // option cpu.isa: "no-bf16", …
  std::vector<std::string> pjrt_plugins;             // option pjrt.plugins, each "name=path"
  std::vector<std::filesystem::path> site_packages;  // Python environments to search, in order

  ProbeOptions probe_options() const { return {environment, probe_time_limit}; }
};

}  // namespace kpt
