#include "backends/amd/architecture_choice.h"

#include <set>
#include <vector>

#include <fmt/format.h>

#include "backends/amd/architecture.h"
#include "base/text.h"

namespace kpt {
namespace {

Status check_known(std::string_view wanted) {
  if (find_amd_architecture(wanted) != nullptr) return {};
  std::vector<std::string> known;
  for (const AmdArchitecture& architecture : amd_architectures()) known.emplace_back(architecture.gfx_target);
  return {StatusCode::kConfiguration,
          fmt::format("amd.architecture is '{}'; valid are auto, {}", printable(wanted, 64), join(known, ", ")),
          Vendor::kAmd};
}

}  // namespace

Result<std::string> choose_amd_target(std::string_view wanted, const std::function<AmdReport()>& detect) {
  if (!wanted.empty()) {
    KPT_RETURN_IF_ERROR(check_known(wanted));
    return std::string(wanted);
  }
  std::set<std::string> found;
  for (const AmdGpu& gpu : detect().gpus) {
    if (find_amd_architecture(gpu.gfx_target) != nullptr) found.insert(gpu.gfx_target);
  }
  if (found.empty()) {
    return Status(StatusCode::kDeviceNotAvailable,
                  "there is no AMD GPU here to take the target from; name one, such as amd:gfx942, or set "
                  "amd.architecture",
                  Vendor::kAmd);
  }
  if (found.size() > 1) {
    return Status(StatusCode::kInvalidArgument,
                  fmt::format("the AMD GPUs here are {}; name the one that is meant, such as amd:{}, or set "
                              "amd.architecture",
                              join(std::vector<std::string>(found.begin(), found.end()), ", "), *found.begin()),
                  Vendor::kAmd);
  }
  return *found.begin();
}

Status check_chosen_target(std::string_view wanted, std::string_view device, std::string_view gfx_target) {
  if (wanted.empty() || wanted == gfx_target) return {};
  KPT_RETURN_IF_ERROR(check_known(wanted));
  return {StatusCode::kInvalidArchitecture,
          fmt::format("{} is {}, and amd.architecture is {}; take another device, or set it to auto", device,
                      printable(gfx_target, 64), wanted),
          Vendor::kAmd};
}

}  // namespace kpt
