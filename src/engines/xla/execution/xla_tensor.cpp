#include "engines/xla/execution/xla_tensor.h"

#include <fmt/format.h>

namespace kpt {
namespace {
constexpr char kTag = 0;
}

const void* XlaTensorBuffer::maker() const { return &kTag; }

void XlaTensorBuffer::replace(std::shared_ptr<pjrt::DeviceBuffer> content) {
  std::swap(content_, content);
  const std::string plugin = content->client().plugin().name();
  release_.threads->let_go(std::move(content), release_.limit, plugin);
}

Tensor make_xla_tensor(const std::string& device, std::shared_ptr<pjrt::DeviceBuffer> content, XlaRelease release) {
  const DType dtype = content->dtype();
  const Dims dims = content->dims();
  auto buffer = std::make_shared<XlaTensorBuffer>(device, std::move(content), std::move(release));
  return Tensor::unchecked(std::move(buffer), dtype, dims, contiguous_strides(dims), 0);
}

Result<XlaTensorBuffer*> find_xla_buffer(const Tensor& tensor, const pjrt::Client& client) {
  if (!tensor.defined() || tensor.buffer()->maker() != &kTag) return static_cast<XlaTensorBuffer*>(nullptr);
  auto* buffer = static_cast<XlaTensorBuffer*>(tensor.buffer().get());
  if (&buffer->content()->client() != &client) {
    return Status(
        StatusCode::kInvalidArgument,
        fmt::format("{} belongs to another client of the plugin; upload it to this device", tensor.to_string()));
  }
  if (!(tensor.dims() == buffer->content()->dims()) || !tensor.is_contiguous() || tensor.offset() != 0 ||
      tensor.dtype() != buffer->content()->dtype()) {
    return Status(StatusCode::kInvalidArgument,
                  fmt::format("{} is a view; only whole tensors can be taken from XLA's memory", tensor.to_string()));
  }
  return buffer;
}

}  // namespace kpt
