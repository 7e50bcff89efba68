// Nodes of our own operators that only AMD GPUs have, by our kernels for their matrix cores.
#pragma once

#include <memory>

#include "engines/aten/module/gpu_own_nodes.h"

namespace kpt::aten {

Result<std::unique_ptr<OwnNode>> bind_rocm_attention(const OwnBinding& binding);
Result<std::unique_ptr<OwnNode>> bind_rocm_linear_fp8(const OwnBinding& binding);
Result<std::unique_ptr<OwnNode>> bind_rocm_linear_int8(const OwnBinding& binding);

}  // namespace kpt::aten
