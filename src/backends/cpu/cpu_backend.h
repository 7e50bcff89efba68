// The processor as a place to run models, through libtorch's kernels.
#pragma once

#include <memory>

#include "device/backend_context.h"
#include "device/execution.h"

namespace kpt {

// libtorch is opened when first needed.
std::unique_ptr<Backend> make_cpu_backend(const BackendContext& context);

}  // namespace kpt
