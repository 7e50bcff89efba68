// Any PJRT plugin as a place to run models: xla:cpu, xla:cuda, xla:rocm, xla:NAME.
#pragma once

#include <memory>

#include "device/backend_context.h"
#include "device/execution.h"

namespace kpt {

// Plugins are looked for, and asked in a child process, when devices() is called; one is opened here when a model is
// loaded or a tensor uploaded. A process has one client per plugin, which goes with its last user.
std::unique_ptr<Backend> make_xla_backend(const BackendContext& context);

}  // namespace kpt
