// The operators of ours that the module for ROCm runs.
#include "engines/aten/rocm/rocm_own_nodes.h"

#include <iterator>

#include "engines/aten/own_targets.h"

namespace kpt::aten {
namespace {

constexpr OwnNodeEntry kOwnNodes[] = {
    {"kpt.add_norm.default", bind_gpu_add_norm},
    {"kpt.attention.default", bind_rocm_attention},
    {"kpt.glu.default", bind_gpu_glu},
    {"kpt.linear.default", bind_gpu_linear},
    {"kpt.linear_fp8.default", bind_rocm_linear_fp8},
    {"kpt.linear_int4.default", bind_gpu_linear_int4},
    {"kpt.linear_int8.default", bind_rocm_linear_int8},
    {"kpt.linear_weight_int8.default", bind_gpu_linear_weight_int8},
    {"kpt.rotary.default", bind_gpu_rotary},
};

constexpr bool tables_agree() {
  if (std::size(kOwnNodes) != std::size(kRocmOwnTargets)) return false;
  for (std::size_t index = 0; index < std::size(kOwnNodes); ++index) {
    if (kOwnNodes[index].target != kRocmOwnTargets[index].target) return false;
  }
  return true;
}
static_assert(tables_agree(), "kRocmOwnTargets has the targets of kOwnNodes, in the same order");

}  // namespace

std::span<const OwnNodeEntry> own_node_table() noexcept { return kOwnNodes; }

}  // namespace kpt::aten
