#include "backends/amd/engine_choice.h"

#include <fmt/format.h>

#include "engines/aten/graph_engine.h"
#include "engines/aten/loader.h"

namespace kpt {

AmdEngineDecision choose_amd_engine(const TorchSearch& search, const SystemFiles& files, AmdEngine wanted) {
  if (wanted == AmdEngine::kLibtorch) return {true, "amd.engine says so"};
  if (wanted == AmdEngine::kNative) return {false, "amd.engine says so"};
  Finding finding;
  if (!check_aten_files(search, AtenPart::kRocm, &finding).ok()) return {false, finding.reason};
  const auto installation = find_torch_installation(search);
  // Files that do not tell their version are not looked at more closely by check_aten_files().
  if (!installation.ok() || !installation->rocm) return {false, "the libtorch at hand was built without ROCm"};
  if (!find_gpu_drivers(files).amd) return {false, "this machine has no AMD driver (/dev/kfd is not there)"};
  return {true,
          fmt::format("libtorch {} at {} is a ROCm build", installation->version_text, installation->dir.string())};
}

}  // namespace kpt
