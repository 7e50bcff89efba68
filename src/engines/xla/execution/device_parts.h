// A tensor on the devices of a run: all of it on each of them, or an equal part on each.
#pragma once

#include <memory>
#include <vector>

#include "engines/xla/execution/sharding.h"
#include "engines/xla/pjrt/client.h"
#include "kpt/status.h"
#include "kpt/tensor.h"

namespace kpt {

// Devices of a client, in its order, that share a run.
struct DeviceRange {
  std::size_t first = 0;
  std::size_t count = 1;
};

using DeviceParts = std::vector<std::shared_ptr<pjrt::DeviceBuffer>>;  // one per device, in their order

// The number of devices must divide the extent that is cut. Parts along the first axis of a contiguous tensor are taken
// from where they lie; others are copied together first.
Result<DeviceParts> upload_parts(const pjrt::Client& client, const Tensor& host, pjrt::HostMemory memory, Cut cut,
                                 DeviceRange devices);

// Into `target`, which is contiguous, of the extents of the whole, and must live until what is added to `pending` is
// done. Parts may be cut along the first axis only. Fails with kInternal when they do not make up the whole.
Status start_download(const DeviceParts& parts, Cut cut, const Tensor& target, std::vector<pjrt::Completion>& pending);

}  // namespace kpt
