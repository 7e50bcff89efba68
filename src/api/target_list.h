// Hardware that programs can be compiled for without it being here.
#pragma once

#include <memory>
#include <string_view>

#include "device/backend_context.h"
#include "device/execution.h"
#include "kpt/status.h"

namespace kpt {

// A target and the backend that it belongs to.
struct PlacedTarget {
  std::shared_ptr<Backend> backend;
  const Target* target = nullptr;
};

// The target of that name: "tpu:v5e:2x2", or "tpu:v5e" for the generation's default slice. Fails with kInvalidArgument,
// naming what is valid.
Result<PlacedTarget> find_absent_target(std::string_view name, const BackendContext& context);

}  // namespace kpt
