#include "api/backend_list.h"

#include <fmt/format.h>

#include "kpt/device.h"

namespace kpt {

Result<PlacedDevice> find_runnable_device(std::string_view name, const BackendContext& context) {
  const std::string_view vendor = name.substr(0, name.find(':'));
  std::string running;
  for (auto& backend : make_backends(context)) {
    running += (running.empty() ? "" : ", ") + std::string(backend->name());
    if (backend->name() != vendor) continue;
    KPT_ASSIGN_OR_RETURN(const auto devices, backend->devices());
    for (Device* device : devices) {
      if (device->info().name == name) return PlacedDevice{std::move(backend), device};
    }
  }
  KPT_ASSIGN_OR_RETURN(const DeviceInfo info, find_device(name));
  return Status(StatusCode::kDeviceNotAvailable,
                fmt::format("{} ({}) is here, but this version cannot run models on it; it can on: {}", info.name,
                            info.description, running));
}

}  // namespace kpt
