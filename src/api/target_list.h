// Hardware that programs can be compiled for without it being here.
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

// The target of that name: "tpu:v5e:2x2", or "tpu:v5e" for the generation's default slice; "amd:gfx942", or "amd" for
// what the option amd.architecture or the GPU at hand says. Fails with kInvalidArgument, naming what is valid, and as
// choose_amd_target() does.
Result<PlacedTarget> find_absent_target(std::string_view name, const BackendContext& context);

// Several, each once, separated by commas; one without a vendor has that of the one before it: "amd:gfx942,gfx1100".
// Targets of a vendor share a backend.
Result<std::vector<PlacedTarget>> find_absent_targets(std::string_view names, const BackendContext& context);

}  // namespace kpt
