#include "device/copies.h"

namespace kpt {
namespace {

template <typename Begin>
Result<std::vector<Tensor>> copy_all(std::span<const Tensor> tensors, const Begin& begin) {
  std::vector<Tensor> copies;
  std::vector<Event> events;
  Status status;
  for (const Tensor& tensor : tensors) {
    Event event;
    Result<Tensor> copy = begin(tensor, &event);
    if (!copy.ok()) {
      status = copy.status();
      break;
    }
    copies.push_back(std::move(copy).value());
    events.push_back(std::move(event));
  }
  for (const Event& event : events) {
    Status done = event.wait();
    if (status.ok()) status = std::move(done);
  }
  KPT_RETURN_IF_ERROR(status);
  return copies;
}

}  // namespace

Result<std::vector<Tensor>> upload_all(Device& device, std::span<const Tensor> tensors) {
  return copy_all(tensors, [&](const Tensor& tensor, Event* event) { return device.begin_upload(tensor, event); });
}

Result<std::vector<Tensor>> download_all(Device& device, std::span<const Tensor> tensors) {
  return copy_all(tensors, [&](const Tensor& tensor, Event* event) { return device.begin_download(tensor, event); });
}

}  // namespace kpt
