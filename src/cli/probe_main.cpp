// kpt-probe: opens one vendor library, prints what it says as JSON, exits.
//
// It exists so that a library that crashes, aborts or hangs takes this process with it and not the one that asked. Not
// for people: started by run_probe() in src/device.
#include <iostream>
#include <random>
#include <string>
#include <vector>

#include "backends/amd/hip_probe.h"
#include "backends/nvidia/driver_probe.h"
#include "base/environment.h"
#include "cli/exit_code.h"
#include "device/hardware_json.h"
#include "engines/aten/torch_probe.h"
#include "engines/xla/pjrt/plugin_probe.h"

namespace {

int print(const nlohmann::ordered_json& report) {
  std::cout << kpt::dump_json(report) << "\n";
  return kpt::cli::kExitOk;
}

int probe(const std::vector<std::string>& arguments) {
  const std::string kind = arguments.empty() ? "" : arguments[0];
  if (kind == "nvidia" && arguments.size() == 1) return print(kpt::probe_nvidia_driver());
  if (kind == "amd" && arguments.size() == 1) return print(kpt::probe_hip_runtime());
  if (kind == "pjrt" && arguments.size() == 2) return print(kpt::probe_pjrt_plugin(arguments[1]));
  if (kind == "torch" && arguments.size() >= 2) {
    const kpt::TorchSearch search{
        kpt::Environment::from_process(), arguments[1], {arguments.begin() + 2, arguments.end()}};
    return print(kpt::probe_torch(search, std::random_device()()).report);
  }
  std::cerr << "usage: kpt-probe nvidia | amd | pjrt LIBRARY | torch FOLDER_OR_EMPTY [SITE_PACKAGES…]\n";
  return kpt::cli::kExitUsage;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return probe(std::vector<std::string>(argv + 1, argv + argc));
  } catch (const std::exception& error) {
    std::cerr << "kpt-probe: " << error.what() << "\n";
    return kpt::cli::kExitFailed;
  }
}
