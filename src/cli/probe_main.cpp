// kpt-probe: opens one vendor library, prints what it says as JSON, exits.
//
// It exists so that a library that crashes, aborts or hangs takes this process with it and not the one that asked. Not
// for people: started by run_probe() in src/device.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
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

// A plugin that is initialised may print, and have threads at work that an orderly exit would meet: what it prints goes
// to standard error, and this process ends as soon as the answer is out.
int probe_plugin(const std::string& path) {
  std::FILE* const answer = ::fdopen(::dup(STDOUT_FILENO), "w");
  if (answer == nullptr || ::dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
    std::cerr << "kpt-probe: standard output cannot be used\n";
    return kpt::cli::kExitFailed;
  }
  const std::string report = kpt::dump_json(nlohmann::ordered_json(kpt::probe_pjrt_plugin(path))) + "\n";
  const bool written = std::fputs(report.c_str(), answer) >= 0 && std::fflush(answer) == 0;
  std::_Exit(written ? kpt::cli::kExitOk : kpt::cli::kExitFailed);
}

int probe(const std::vector<std::string>& arguments) {
  const std::string kind = arguments.empty() ? "" : arguments[0];
  if (kind == "nvidia" && arguments.size() == 1) return print(kpt::probe_nvidia_driver());
  if (kind == "amd" && arguments.size() == 1) return print(kpt::probe_hip_runtime());
  if (kind == "pjrt" && arguments.size() == 2) return probe_plugin(arguments[1]);
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
