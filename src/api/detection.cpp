#include "api/detection.h"

#include <algorithm>

#include "base/build_info.h"
#include "base/text.h"
#include "config/automatic.h"
#include "config/options.h"
#include "device/python_environments.h"

namespace kpt {

Result<Config> load_library_config(const Environment& environment) {
  KPT_ASSIGN_OR_RETURN(Config config, load_config({}, environment));
  apply_library_logging(config);
  log_unknown_variables(environment);
  return config;
}

DetectionContext make_detection_context(const Config& config, const Environment& environment, SystemFiles files) {
  DetectionContext context;
  context.files = std::move(files);
  context.environment = environment;
  context.probe_time_limit = std::chrono::milliseconds(config.get(options::kProbeTimeoutMs));
  context.hidden_isa = config.get(options::kCpuIsa);
  context.pjrt_plugins = config.get(options::kPjrtPlugins);
  const std::filesystem::path torch_dir = torch_folder(config, environment);
  context.site_packages =
      find_site_packages(environment, torch_dir.empty() ? std::filesystem::path(build_info().torch_dir) : torch_dir);
  return context;
}

AmdEngine amd_engine(const Config& config) {
  switch (config.get(options::kAmdEngine)) {
    case AmdEngineWord::kAuto: return AmdEngine::kAuto;
    case AmdEngineWord::kLibtorch: return AmdEngine::kLibtorch;
    case AmdEngineWord::kNative: return AmdEngine::kNative;
  }
  return AmdEngine::kAuto;
}

std::string tpu_topology(const Config& config) {
  std::string wanted = to_lower(config.get(options::kTpuTopology));
  return wanted == "auto" ? "" : wanted;
}

bool may_probe(const Config& config, std::string_view backend) {
  const std::vector<std::string> allowed = config.get(options::kProbeBackends);
  return std::ranges::find(allowed, backend) != allowed.end();
}

}  // namespace kpt
