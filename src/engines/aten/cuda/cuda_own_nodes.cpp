// The operators of ours that the CUDA module runs.
#include "engines/aten/cuda/cuda_own_nodes.h"

#include <iterator>

#include "engines/aten/cuda/measured_product.h"
#include "engines/aten/own_targets.h"

namespace kpt::aten {
namespace {

Result<std::unique_ptr<OwnNode>> bind_cuda_linear(const OwnBinding& binding) {
  if (!binding.policy().tune_products) return bind_gpu_linear(binding);
  return bind_gpu_linear_by(binding, multiply_by_measured,
                            "the fastest of cuBLASLt's products and libtorch's, measured in the first run of a shape");
}

constexpr OwnNodeEntry kOwnNodes[] = {
    {"kpt.add_norm.default", bind_gpu_add_norm},
    {"kpt.attention.default", bind_cuda_attention},
    {"kpt.conv2d.default", bind_cuda_conv2d},
    {"kpt.glu.default", bind_gpu_glu},
    {"kpt.linear.default", bind_cuda_linear},
    {"kpt.linear_fp8.default", bind_cuda_linear_fp8},
    {"kpt.linear_int4.default", bind_gpu_linear_int4},
    {"kpt.linear_int8.default", bind_cuda_linear_int8},
    {"kpt.rotary.default", bind_gpu_rotary},
    {"kpt.linear_weight_int8.default", bind_gpu_linear_weight_int8},
    {"kpt.linear_fp8_e5m2.default", bind_cuda_linear_fp8_e5m2},
};

constexpr bool tables_agree() {
  if (std::size(kOwnNodes) != std::size(kCudaOwnTargets)) return false;
  for (std::size_t index = 0; index < std::size(kOwnNodes); ++index) {
    if (kOwnNodes[index].target != kCudaOwnTargets[index]) return false;
  }
  return true;
}
static_assert(tables_agree(), "kCudaOwnTargets has the targets of kOwnNodes, in the same order");

}  // namespace

std::span<const OwnNodeEntry> own_node_table() noexcept { return kOwnNodes; }

}  // namespace kpt::aten
