// Several tensors between the host and a device at once: all copies are begun before the first is waited for.
#pragma once

#include <span>
#include <vector>

#include "device/execution.h"

namespace kpt {

// One for each, in order. They fail as Device::upload() and download(); then what was begun is waited for.
Result<std::vector<Tensor>> upload_all(Device& device, std::span<const Tensor> tensors);
Result<std::vector<Tensor>> download_all(Device& device, std::span<const Tensor> tensors);

}  // namespace kpt
