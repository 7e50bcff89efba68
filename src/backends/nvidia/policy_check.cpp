#include "backends/nvidia/policy_check.h"

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kpt {
namespace {

bool multiplies(const NvidiaArchitecture& architecture, Precision precision) {
  return std::ranges::find(architecture.matrix_precisions, precision) != architecture.matrix_precisions.end();
}

Status refuse(std::string_view setting, const NvidiaArchitecture& architecture, std::string_view lacks) {
  return {StatusCode::kMatrixUnit,
          fmt::format("{} cannot be set for {} ({}), which has no {}", setting, architecture.name,
                      nvidia_target_name(architecture.major, architecture.minor), lacks),
          Vendor::kNvidia};
}

}  // namespace

std::string describe_arithmetic(const NvidiaPolicy& policy) {
  std::vector<std::string> words;
  if (policy.tf32) words.emplace_back("tf32");
  if (policy.tune_products) words.emplace_back("tuned-products");
  if (policy.tune_convolutions) words.emplace_back("tuned-convolutions");
  if (policy.fp8_scaling == Fp8Scaling::kTensor) words.emplace_back("fp8-tensor");
  if (policy.fp8_scaling == Fp8Scaling::kDelayed) {
    words.push_back(fmt::format("fp8-delayed-{}", policy.fp8_history));
  }
  if (policy.fp8_inputs == Fp8Inputs::kE5M2) words.emplace_back("fp8-inputs-e5m2");
  if (policy.fp8_inputs == Fp8Inputs::kByData) words.emplace_back("fp8-inputs-auto");
  return fmt::format("{}", fmt::join(words, ","));
}

Status check_nvidia_policy(const NvidiaPolicy& policy, const NvidiaArchitecture& architecture, bool has_nvtx) {
  if (policy.nvtx && !has_nvtx) {
    return {StatusCode::kUnsupported,
            "nvidia.nvtx cannot be on: this build has no NVTX headers (nvtx3/nvToolsExt.h of a CUDA toolkit)",
            Vendor::kNvidia};
  }
  if (policy.tf32 && !multiplies(architecture, Precision::kTf32)) {
    return refuse("nvidia.tf32", architecture, "TF32");
  }
  if (policy.fp8_scaling != Fp8Scaling::kRow && !multiplies(architecture, Precision::kFp8)) {
    return refuse(
        policy.fp8_scaling == Fp8Scaling::kTensor ? "nvidia.fp8_scaling=tensor" : "nvidia.fp8_scaling=delayed",
        architecture, "FP8");
  }
  if (policy.fp8_inputs != Fp8Inputs::kE4M3 && !multiplies(architecture, Precision::kFp8)) {
    return refuse(policy.fp8_inputs == Fp8Inputs::kE5M2 ? "nvidia.fp8_activations=e5m2" : "nvidia.fp8_activations=auto",
                  architecture, "FP8");
  }
  return {};
}

}  // namespace kpt
