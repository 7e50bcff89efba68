#include "api/target_list.h"

#include <algorithm>
#include <map>
#include <string>

#include <fmt/format.h>

#include "backends/amd/amd_backend.h"
#include "backends/amd/architecture_choice.h"
#include "backends/amd/detect_amd.h"
#include "backends/nvidia/nvidia_backend.h"
#include "backends/tpu/detect_tpu.h"
#include "backends/tpu/topology.h"
#include "backends/tpu/topology_choice.h"
#include "backends/tpu/tpu_backend.h"
#include "backends/xla/xla_backend.h"
#include "base/text.h"

namespace kpt {
namespace {

// Whose programs can be compiled ahead of time: without the hardware, and by PJRT plugins for what they see here.
struct CompilingVendor {
  std::string_view name;
  std::string_view example;
  std::unique_ptr<Backend> (*make)(const BackendContext& context);
  // As the backend's targets have it.
  Result<std::string> (*find_name)(std::string_view wanted, const BackendContext& context);
  bool has_plugins = false;  // there may be targets that only looking for plugins shows
};

Result<std::string> find_nvidia_name(std::string_view wanted, const BackendContext& /*context*/) {
  return to_lower(trim(wanted));
}

Result<std::string> find_amd_name(std::string_view wanted, const BackendContext& context) {
  const std::string name = to_lower(trim(wanted));
  if (name != "amd") return name;
  KPT_ASSIGN_OR_RETURN(const std::string target, choose_amd_target(context.amd_architecture, [&context] {
                         return detect_amd(context.detection);
                       }));
  return "amd:" + target;
}

Result<std::string> find_tpu_name(std::string_view wanted, const BackendContext& context) {
  if (to_lower(trim(wanted)) == "tpu") {
    KPT_ASSIGN_OR_RETURN(const TpuTopology slice, choose_tpu_topology(context.tpu_topology, [&context] {
                           return detect_tpu(context.detection);
                         }));
    return slice.target_name();
  }
  KPT_ASSIGN_OR_RETURN(const TpuTopology topology, parse_tpu_target(wanted));
  return topology.target_name();
}

// Names of plugins are the user's: only the kind is written in one way.
Result<std::string> find_xla_name(std::string_view wanted, const BackendContext& /*context*/) {
  const std::string_view name = trim(wanted);
  const auto colon = name.find(':');
  if (colon == std::string_view::npos) return to_lower(name);
  return to_lower(name.substr(0, colon)) + std::string(name.substr(colon));
}

constexpr CompilingVendor kCompilingVendors[] = {{"tpu", "tpu:v5e", make_tpu_backend, find_tpu_name},
                                                 {"amd", "amd:gfx942", make_amd_backend, find_amd_name},
                                                 {"nvidia", "nvidia:sm_90", make_nvidia_backend, find_nvidia_name},
                                                 {"xla", "xla:cpu", make_xla_backend, find_xla_name, true}};

// Backends that were made, by vendor: they compile together and share what they keep.
using Backends = std::map<std::string, std::shared_ptr<Backend>, std::less<>>;

const std::shared_ptr<Backend>& get_backend(const CompilingVendor& vendor, const BackendContext& context,
                                            Backends& backends) {
  std::shared_ptr<Backend>& backend = backends[std::string(vendor.name)];
  if (!backend) backend = vendor.make(context);
  return backend;
}

Status unknown_vendor(std::string_view name) {
  std::string valid;
  for (const CompilingVendor& vendor : kCompilingVendors) {
    valid += fmt::format("{}of {}, such as {}", valid.empty() ? "" : ", and ", vendor.name, vendor.example);
  }
  return {StatusCode::kInvalidArgument,
          fmt::format("programs cannot be compiled for '{}'; valid are targets {}", printable(name, 64), valid)};
}

const Target* find_among(const Backend& backend, std::string_view name) {
  const std::vector<const Target*> targets = backend.targets();
  const auto found = std::ranges::find(targets, name, &Target::name);
  return found == targets.end() ? nullptr : *found;
}

Result<PlacedTarget> find_target(std::string_view name, const BackendContext& context, Backends& backends) {
  const std::string given = to_lower(trim(name));
  const auto* const vendor =
      std::ranges::find(kCompilingVendors, given.substr(0, given.find(':')), &CompilingVendor::name);
  if (vendor == std::end(kCompilingVendors)) return unknown_vendor(name);
  KPT_ASSIGN_OR_RETURN(const std::string wanted, vendor->find_name(name, context));
  PlacedTarget placed{get_backend(*vendor, context, backends), nullptr};
  placed.target = find_among(*placed.backend, wanted);
  if (placed.target == nullptr && vendor->has_plugins) {
    KPT_RETURN_IF_ERROR(placed.backend->devices_named(wanted).status());
    placed.target = find_among(*placed.backend, wanted);
  }
  if (placed.target != nullptr) return placed;
  if (vendor->has_plugins) KPT_RETURN_IF_ERROR(placed.backend->devices().status());  // so that all are known
  std::vector<std::string> valid;
  for (const Target* target : placed.backend->targets()) valid.emplace_back(target->name());
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
