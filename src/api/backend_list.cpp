#include "api/backend_list.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/log.h"
#include "kpt/device.h"
#include "runtime/split_backend.h"

namespace kpt {
namespace {

Result<DevicePlace> find_own_device(std::string_view name, const BackendContext& context) {
  const std::string_view vendor = name.substr(0, name.find(':'));
  std::string running;
  for (auto& backend : make_backends(context)) {
    running += (running.empty() ? "" : ", ") + std::string(backend->name());
    if (backend->name() != vendor) continue;
    KPT_ASSIGN_OR_RETURN(const auto devices, backend->devices_named(name));
    for (Device* device : devices) {
      if (device->info().name == name) return DevicePlace{std::move(backend), device};
    }
  }
  KPT_ASSIGN_OR_RETURN(const DeviceInfo info, find_device(name));
  return Status(StatusCode::kDeviceNotAvailable,
                fmt::format("{} ({}) is here, but this version cannot run models on it; it can on: {}", info.name,
                            info.description, running));
}

// Whether the user's own word, and not the machine, stands against a device: that is told and not passed over.
bool is_users_mistake(std::string_view device, StatusCode code) {
  const bool other_slice = device == "tpu:0" && code == StatusCode::kInvalidArchitecture;  // than tpu.topology
  return code == StatusCode::kConfiguration || other_slice;
}

// Accelerators before the processor, and of each kind the first.
Result<DevicePlace> find_best_device(const BackendContext& context) {
  for (const std::string_view name : {"nvidia:0", "amd:0", "tpu:0"}) {
    auto found = find_own_device(name, context);
    if (found.ok() || is_users_mistake(name, found.status().code())) return found;
    log::info("auto passes over a device", {{"device", std::string(name)}, {"reason", found.status().message()}});
  }
  return find_own_device("cpu", context);
}

}  // namespace

Result<PlacedDevice> find_runnable_device(std::string_view name, const BackendContext& context) {
  KPT_ASSIGN_OR_RETURN(DevicePlace own, name == "auto" ? find_best_device(context) : find_own_device(name, context));
  if (own.device->target().capabilities().host_processor) return PlacedDevice{std::move(own.backend), own.device};
  auto split =
      make_split_backend(std::move(own), [context] { return find_own_device("cpu", context); }, context.split_graphs);
  KPT_ASSIGN_OR_RETURN(const auto devices, split->devices());
  return PlacedDevice{std::move(split), devices[0]};
}

bool names_host_processor(std::string_view name, const BackendContext& context) {
  const auto backends = make_backends(context);
  return std::ranges::any_of(backends, [&](const std::unique_ptr<Backend>& backend) {
    return backend->name() == name.substr(0, name.find(':')) &&
           std::ranges::any_of(backend->targets(),
                               [](const Target* target) { return target->capabilities().host_processor; });
  });
}

}  // namespace kpt
