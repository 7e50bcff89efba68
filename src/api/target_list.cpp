#include "api/target_list.h"

#include <fmt/format.h>

#include "backends/tpu/topology.h"
#include "backends/tpu/tpu_backend.h"

namespace kpt {

Result<PlacedTarget> find_absent_target(std::string_view name, const BackendContext& context) {
  KPT_ASSIGN_OR_RETURN(const TpuTopology topology, parse_tpu_target(name));
  const std::string wanted = topology.target_name();
  PlacedTarget placed{make_tpu_backend(context), nullptr};
  for (const Target* target : placed.backend->targets()) {
    if (target->name() == wanted) placed.target = target;
  }
  if (placed.target == nullptr) {
    return Status(StatusCode::kInternal, fmt::format("the backend has no target {}", wanted));
  }
  return placed;
}

}  // namespace kpt
