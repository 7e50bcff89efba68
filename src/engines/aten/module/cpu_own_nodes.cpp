// The operators of ours that the CPU module runs.
#include "engines/aten/module/own_nodes.h"
#include "engines/aten/own_targets.h"

namespace kpt::aten {
namespace {

constexpr OwnNodeEntry kOwnNodes[] = {
    {"kpt.add_norm.default", bind_add_norm},
    {"kpt.attention.default", bind_attention},
    {"kpt.conv2d.default", bind_conv2d},
    {"kpt.conv2d_int8.default", bind_conv2d_int8},
    {"kpt.glu.default", bind_glu},
    {"kpt.linear.default", bind_linear},
    {"kpt.linear_int4.default", bind_linear_int4},
    {"kpt.linear_int8.default", bind_linear_int8},
    {"kpt.linear_weight_int8.default", bind_linear_weight_int8},
    {"kpt.rotary.default", bind_rotary},
};

constexpr bool tables_agree() {
  if (std::size(kOwnNodes) != std::size(kOwnTargets)) return false;
  for (std::size_t index = 0; index < std::size(kOwnNodes); ++index) {
    if (kOwnNodes[index].target != kOwnTargets[index]) return false;
  }
  return true;
}
static_assert(tables_agree(), "kOwnTargets has the targets of kOwnNodes, in the same order");

}  // namespace

std::span<const OwnNodeEntry> own_node_table() noexcept { return kOwnNodes; }

}  // namespace kpt::aten
