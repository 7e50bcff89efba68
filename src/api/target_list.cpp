#include "api/target_list.h"

#include <algorithm>
#include <map>
#include <string>

#include <fmt/format.h>

#include "backends/amd/amd_backend.h"
#include "backends/tpu/topology.h"
#include "backends/tpu/tpu_backend.h"
#include "base/text.h"

namespace kpt {
namespace {

// Backends that were made, by vendor: they compile together and share what they keep.
using Backends = std::map<std::string, std::shared_ptr<Backend>, std::less<>>;

const std::shared_ptr<Backend>& get_backend(std::string_view vendor, const BackendContext& context,
                                            Backends& backends) {
  std::shared_ptr<Backend>& backend = backends[std::string(vendor)];
  if (!backend) backend = vendor == "amd" ? make_amd_backend(context) : make_tpu_backend(context);
  return backend;
}

Result<PlacedTarget> find_target(std::string_view name, const BackendContext& context, Backends& backends) {
  std::string wanted = to_lower(trim(name));
  const std::string vendor = wanted.substr(0, wanted.find(':'));
  if (vendor != "amd") {
    const auto topology = parse_tpu_target(name);
    if (!topology.ok() && vendor == "tpu") return topology.status();
    if (!topology.ok()) {
      return Status(StatusCode::kInvalidArgument,
                    fmt::format("programs cannot be compiled for '{}'; valid are targets of tpu, such as tpu:v5e, and "
                                "of amd, such as amd:gfx942",
                                printable(name, 64)));
    }
    wanted = topology->target_name();
  }
  PlacedTarget placed{get_backend(vendor, context, backends), nullptr};
  std::vector<std::string> valid;
  for (const Target* target : placed.backend->targets()) {
    valid.emplace_back(target->name());
    if (target->name() == wanted) placed.target = target;
  }
  if (placed.target != nullptr) return placed;
  return Status(StatusCode::kInvalidArgument,
                fmt::format("there is no target '{}'; valid are {}", printable(name, 64), join(valid, ", ")));
}

}  // namespace

Result<PlacedTarget> find_absent_target(std::string_view name, const BackendContext& context) {
  Backends backends;
  return find_target(name, context, backends);
}

Result<std::vector<PlacedTarget>> find_absent_targets(std::string_view names, const BackendContext& context) {
  Backends backends;
  std::vector<PlacedTarget> targets;
  std::string vendor;
  std::vector<std::string_view> parts = split(names, ',');
  if (parts.empty()) parts.emplace_back();
  for (const std::string_view part : parts) {
    const auto colon = part.find(':');
    if (colon != std::string_view::npos) vendor = trim(part.substr(0, colon));
    const bool inherits = colon == std::string_view::npos && !vendor.empty();
    const std::string name = inherits ? fmt::format("{}:{}", vendor, trim(part)) : std::string(part);
    KPT_ASSIGN_OR_RETURN(PlacedTarget placed, find_target(name, context, backends));
    if (std::ranges::find(targets, placed.target, &PlacedTarget::target) != targets.end()) {
      return Status(StatusCode::kInvalidArgument, fmt::format("{} is named twice", placed.target->name()));
    }
    targets.push_back(std::move(placed));
  }
  return targets;
}

}  // namespace kpt
