// A device that can leave nodes to the host: around any backend, for callers that know nothing of it.
#pragma once

#include <functional>
#include <memory>

#include "device/execution.h"
#include "runtime/split_executable.h"

namespace kpt {

// A backend with one device, which has the name, the memory and the capabilities of the one that is given and runs what
// that runs. With `allowed` (option placement.split) its target also takes graphs that must be split with the host;
// without, Target::place() says where that would help. `find_host` is asked once, when a node cannot run on the device.
std::shared_ptr<Backend> make_split_backend(DevicePlace device, std::function<Result<DevicePlace>()> find_host,
                                            bool allowed);

}  // namespace kpt
