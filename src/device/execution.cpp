#include "device/execution.h"

namespace kpt {

// What a device does that queues no copies.
Result<Tensor> Device::begin_upload(const Tensor& host, Event* event) {
  *event = Event();
  return upload(host);
}

Result<Tensor> Device::begin_download(const Tensor& tensor, Event* event) {
  *event = Event();
  return download(tensor);
}

Result<Tensor> Device::begin_copy(Device& from, const Tensor& tensor, Event* event) {
  KPT_ASSIGN_OR_RETURN(const Tensor host, from.download(tensor));
  return begin_upload(host, event);
}

}  // namespace kpt
