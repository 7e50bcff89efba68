// All backends that can run models. The list is made by CMake from the kpt_add_backend() lines.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "device/backend_context.h"
#include "device/execution.h"
#include "kpt/status.h"

namespace kpt {

std::vector<std::unique_ptr<Backend>> make_backends(const BackendContext& context);

// A device and the backend that it belongs to.
struct PlacedDevice {
  std::shared_ptr<Backend> backend;
  Device* device = nullptr;
};

// The device of that name ("cpu", "nvidia:0"), or with "auto" the first of nvidia:0, amd:0, tpu:0 and cpu that is
// there; with BackendContext::split_graphs it leaves nodes that it cannot run to the CPU (runtime/split_backend.h).
// Fails with kInvalidArgument for a name without a valid form, and with kDeviceNotAvailable when it is not there,
// cannot be used, or cannot run models yet.
Result<PlacedDevice> find_runnable_device(std::string_view name, const BackendContext& context);

// Whether a device can have this name, without looking for it: kInvalidArgument with what is valid. "auto" is none.
Status check_device_name(std::string_view name);

// Whether devices of that name are this machine's processor; opens none. What is no name of a device is not.
bool names_host_processor(std::string_view name, const BackendContext& context);

}  // namespace kpt
