// Nodes of our own operators that only NVIDIA GPUs have, by CUDA's libraries.
#pragma once

#include <memory>

#include "engines/aten/module/gpu_own_nodes.h"

namespace kpt::aten {

Result<std::unique_ptr<OwnNode>> bind_cuda_attention(const OwnBinding& binding);
Result<std::unique_ptr<OwnNode>> bind_cuda_conv2d(const OwnBinding& binding);
Result<std::unique_ptr<OwnNode>> bind_cuda_linear_fp8(const OwnBinding& binding);
Result<std::unique_ptr<OwnNode>> bind_cuda_linear_fp8_e5m2(const OwnBinding& binding);
Result<std::unique_ptr<OwnNode>> bind_cuda_linear_int8(const OwnBinding& binding);

}  // namespace kpt::aten
