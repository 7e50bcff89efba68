// What programs can be compiled for ahead of time: hardware that need not be here, and PJRT plugins that are.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "device/backend_context.h"
#include "device/execution.h"
#include "kpt/status.h"

namespace kpt {

// A target and the backend that it belongs to.
struct PlacedTarget {
  std::shared_ptr<Backend> backend;
  const Target* target = nullptr;
};

// The target of that name: "tpu:v5e:2x2", "tpu:v5e" for the generation's default slice, or "tpu" for what the option
// tpu.topology or the machine says; "amd:gfx942", or "amd" for what the option amd.architecture or the GPU at hand
// says; "xla:cpu" and the like, or "xla:NAME" for any plugin that is found. Fails with kInvalidArgument, naming what is
// valid, and as choose_amd_target() and choose_tpu_topology() do.
Result<PlacedTarget> find_absent_target(std::string_view name, const BackendContext& context);

// Several, each once, separated by commas; one without a vendor has that of the one before it: "amd:gfx942,gfx1100".
// Targets of a vendor share a backend.
Result<std::vector<PlacedTarget>> find_absent_targets(std::string_view names, const BackendContext& context);

}  // namespace kpt
