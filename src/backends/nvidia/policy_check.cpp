#include "backends/nvidia/policy_check.h"

namespace kpt {

Status check_nvidia_policy(const NvidiaPolicy& policy, const NvidiaArchitecture& /*architecture*/, bool has_nvtx) {
  if (policy.nvtx && !has_nvtx) {
    return {StatusCode::kUnsupported,
            "nvidia.nvtx cannot be on: this build has no NVTX headers (nvtx3/nvToolsExt.h of a CUDA toolkit)",
            Vendor::kNvidia};
  }
  return {};
}

}  // namespace kpt
