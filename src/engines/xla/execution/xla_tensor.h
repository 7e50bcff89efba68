// Tensors in a PJRT plugin's memory: no address, recognised by their maker.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/call_threads.h"
#include "engines/xla/pjrt/client.h"
#include "kpt/status.h"
#include "kpt/tensor.h"

namespace kpt {

// How memory in the plugin is let go.
struct XlaRelease {
  std::shared_ptr<CallThreads> threads;
  std::chrono::milliseconds limit;
};

class XlaTensorBuffer final : public Buffer {
 public:
  XlaTensorBuffer(std::string device, std::shared_ptr<pjrt::DeviceBuffer> content, XlaRelease release)
      : device_(std::move(device)), content_(std::move(content)), release_(std::move(release)) {}
  XlaTensorBuffer(const XlaTensorBuffer&) = delete;
  XlaTensorBuffer& operator=(const XlaTensorBuffer&) = delete;
  ~XlaTensorBuffer() override { replace(nullptr); }
  void* data() const override { return nullptr; }
  std::size_t bytes() const override { return content_->bytes(); }
  std::string_view device() const override { return device_; }
  const void* maker() const override;

  const std::shared_ptr<pjrt::DeviceBuffer>& content() const { return content_; }
  // For a model that writes its input. Same type and shape as before.
  void replace(std::shared_ptr<pjrt::DeviceBuffer> content);

 private:
  std::string device_;
  std::shared_ptr<pjrt::DeviceBuffer> content_;
  XlaRelease release_;
};

Tensor make_xla_tensor(const std::string& device, std::shared_ptr<pjrt::DeviceBuffer> content, XlaRelease release);
// Null when the tensor is not one of ours. Fails with kInvalidArgument for one that is a part or a view of ours, or
// that lives on another client.
Result<XlaTensorBuffer*> find_xla_buffer(const Tensor& tensor, const pjrt::Client& client);

}  // namespace kpt
