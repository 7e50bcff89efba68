#include "engines/xla/execution/device_parts.h"

#include <fmt/format.h>

namespace kpt {
namespace {

Result<Tensor> part_of(const Tensor& host, std::size_t axis, std::size_t index, std::size_t count) {
  Dims dims = host.dims();
  dims[axis] /= static_cast<std::int64_t>(count);
  const std::int64_t offset = host.offset() + static_cast<std::int64_t>(index) * dims[axis] * host.strides()[axis];
  return Tensor::from_buffer(host.buffer(), host.dtype(), dims, host.strides(), offset);
}

}  // namespace

Result<DeviceParts> upload_parts(const pjrt::Client& client, const Tensor& host, pjrt::HostMemory memory, Cut cut,
                                 DeviceRange devices) {
  DeviceParts parts;
  for (std::size_t device = 0; device < devices.count; ++device) {
    Tensor part = host;
    if (cut) {
      KPT_ASSIGN_OR_RETURN(part, part_of(host, *cut, device, devices.count));
    }
    KPT_ASSIGN_OR_RETURN(auto uploaded, client.upload(part, memory, devices.first + device));
    parts.push_back(std::move(uploaded));
  }
  return parts;
}

Status start_download(const DeviceParts& parts, Cut cut, const Tensor& target, std::vector<pjrt::Completion>& pending) {
  const std::size_t used = cut ? parts.size() : 1;
  const std::size_t bytes = target.bytes() / used;
  for (std::size_t i = 0; i < used; ++i) {
    if (parts[i]->bytes() != bytes || (cut && *cut != 0) || parts[i]->dtype() != target.dtype()) {
      return {StatusCode::kInternal, fmt::format("a device gave {} bytes of {} where {} were expected",
                                                 parts[i]->bytes(), target.to_string(), bytes)};
    }
    KPT_ASSIGN_OR_RETURN(pjrt::Completion done,
                         parts[i]->start_download({static_cast<std::byte*>(target.data()) + i * bytes, bytes}));
    pending.push_back(std::move(done));
  }
  return {};
}

}  // namespace kpt
