// Tensors in a PJRT plugin's memory: no address, recognised by their maker.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "engines/xla/pjrt/client.h"
#include "kpt/status.h"
#include "kpt/tensor.h"

namespace kpt {

class XlaTensorBuffer final : public Buffer {
 public:
  XlaTensorBuffer(std::string device, std::shared_ptr<pjrt::DeviceBuffer> content)
      : device_(std::move(device)), content_(std::move(content)) {}
  void* data() const override { return nullptr; }
  std::size_t bytes() const override { return content_->bytes(); }
  std::string_view device() const override { return device_; }
  const void* maker() const override;

  const std::shared_ptr<pjrt::DeviceBuffer>& content() const { return content_; }
  // For a model that writes its input. Same type and shape as before.
  void replace(std::shared_ptr<pjrt::DeviceBuffer> content) { content_ = std::move(content); }

 private:
  std::string device_;
  std::shared_ptr<pjrt::DeviceBuffer> content_;
};

Tensor make_xla_tensor(const std::string& device, std::shared_ptr<pjrt::DeviceBuffer> content);
// Null when the tensor is not one of ours. Fails with kInvalidArgument for one that is a part or a view of ours, or
// that lives on another client.
Result<XlaTensorBuffer*> find_xla_buffer(const Tensor& tensor, const pjrt::Client& client);

}  // namespace kpt
