#include "engines/aten/module/device_calls.h"

#include <map>
#include <mutex>

#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "engines/aten/module/compiled_graph.h"
#include "engines/aten/module/device_run.h"
#include "engines/aten/module/guarded_call.h"
#include "engines/aten/module/tensors.h"
#include "engines/aten/module/warning_sink.h"

namespace kpt::aten {
namespace {

// libtorch looks for its GPU part once, at the first call that might concern it (even reading its settings), and keeps
// the answer. A library that came later can count devices but never use one.
void require_connected() {
  const at::CUDAHooksInterface& hooks = at::detail::getCUDAHooks();
  if (!hooks.hasCUDART() && !hooks.hasROCM()) {
    throw CallFailure(CallCode::kFailed, "libtorch was used before its GPU part was opened, and now ignores it");
  }
}

// libtorch's index type is a signed char; it is a number here and not a character. 0 without a driver.
std::int32_t count_devices() { return int{c10::impl::VirtualGuardImpl(at::kCUDA).deviceCount()}; }

// Copies that nobody waits for have a stream of their own on each device.
c10::Stream copy_stream(const at::Device& device) {
  static std::mutex mutex;
  static std::map<c10::DeviceIndex, c10::Stream> streams;
  const std::lock_guard lock(mutex);
  const auto found = streams.find(device.index());
  if (found != streams.end()) return found->second;
  return streams.emplace(device.index(), c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device))
      .first->second;
}

// Memory that the device reads by itself while the host goes on: what is not pinned by libtorch, which keeps its pinned
// memory until copies from there are over, is copied into such memory first.
at::Tensor stage(const Tensor& tensor) {
  at::Tensor host = to_aten(tensor);
  // It finds such memory by its beginning.
  const bool whole = tensor.buffer() != nullptr && tensor.buffer()->maker() == buffer_maker() && tensor.offset() == 0;
  if (whole && host.is_pinned()) return host;
  at::Tensor staged = at::empty(host.sizes(), at::TensorOptions().dtype(host.scalar_type()).pinned_memory(true));
  staged.copy_(host);
  return staged;
}

// Queues target = source, on the current stream of the source's device. Its memory may be let go before that is done.
void queue_copy(const at::Tensor& source, at::Tensor& target) {
  target.copy_(source, /*non_blocking=*/true);
  if (source.is_cuda()) source.record_stream(c10::impl::VirtualGuardImpl(at::kCUDA).getStream(source.device()));
}

}  // namespace

c10::DeviceIndex require_device(std::int32_t index) {
  require_connected();
  if (index < 0 || index >= count_devices()) {
    throw CallFailure(CallCode::kNoDevice, "libtorch sees no GPU of that index");
  }
  at::globalContext().lazyInitDevice(at::kCUDA);
  // libtorch rounds the operands of float32 convolutions to TF32 unless told not to; less precision is a level's choice
  // or the option nvidia.tf32, not the library's.
  static std::once_flag once;
  std::call_once(once, [] {
    at::globalContext().setAllowTF32CuDNN(false);
    // cuDNN's attention gives a row that a mask of truth values lets look nowhere a value (seen with 2.11); the others
    // give zero.
    at::globalContext().setSDPUseCuDNN(false);
  });
  return static_cast<c10::DeviceIndex>(index);
}

namespace calls {

CallOutcome device_count(std::int32_t* count) noexcept {
  return guarded_call([count] {
    require_connected();
    *count = count_devices();
  });
}

CallOutcome memory_statistics(std::int32_t index, MemoryStatistics* statistics) noexcept {
  return guarded_call([=] { *statistics = read_memory(require_device(index)); });
}

CallOutcome reset_peak_memory(std::int32_t index) noexcept {
  return guarded_call([=] { reset_device_peak(require_device(index)); });
}

CallOutcome check_graph(const ir::Graph* graph, std::vector<Support>* answers) noexcept {
  return guarded_call([=] { *answers = CompiledGraph::check(*graph, at::Device(at::kCUDA, 0)); });
}

CallOutcome set_warning_sink(void (*sink)(const char* text)) noexcept {
  return guarded_call([=] { WarningSink::instance().set(sink); });
}

CallOutcome allocate(std::int32_t index, DType dtype, const Dims* dims, Tensor* tensor) noexcept {
  return memory_call(index, [=] {
    const c10::InferenceMode inference;
    const at::Device device(at::kCUDA, require_device(index));
    replace_tensor(at::empty({dims->data(), dims->size()}, at::TensorOptions(device).dtype(to_scalar_type(dtype))),
                   *tensor);
  });
}

CallOutcome upload(std::int32_t index, const Tensor* host, Tensor* tensor) noexcept {
  return memory_call(index, [=] {
    const c10::InferenceMode inference;
    const at::Device device(at::kCUDA, require_device(index));
    replace_tensor(to_aten(*host).to(device, /*non_blocking=*/false, /*copy=*/true), *tensor);
    wait_for_queue(device);
  });
}

CallOutcome download(const Tensor* tensor, Tensor* host) noexcept {
  return guarded_call([=] {
    const c10::InferenceMode inference;
    replace_tensor(to_aten(*tensor).to(at::kCPU, /*non_blocking=*/false, /*copy=*/true), *host);
  });
}

CallOutcome begin_upload(std::int32_t index, const Tensor* host, Tensor* tensor, Event* event) noexcept {
  return memory_call(index, [=] {
    const c10::InferenceMode inference;
    const at::Device device(at::kCUDA, require_device(index));
    const at::Tensor staged = stage(*host);
    const c10::StreamGuard queue(copy_stream(device));
    at::Tensor copy = at::empty(staged.sizes(), at::TensorOptions(device).dtype(staged.scalar_type()));
    queue_copy(staged, copy);
    *event = Event(std::make_shared<QueuedWork>(queue.current_stream()));
    replace_tensor(std::move(copy), *tensor);
  });
}

CallOutcome begin_download(const Tensor* tensor, Tensor* host, Event* event) noexcept {
  return guarded_call([=] {
    const c10::InferenceMode inference;
    const at::Tensor source = to_aten(*tensor);
    const c10::StreamGuard queue(copy_stream(source.device()));
    at::Tensor copy = at::empty(source.sizes(), at::TensorOptions().dtype(source.scalar_type()).pinned_memory(true));
    queue_copy(source, copy);
    *event = Event(std::make_shared<QueuedWork>(queue.current_stream()));
    replace_tensor(std::move(copy), *host);
  });
}

CallOutcome begin_copy(std::int32_t index, const Tensor* from, Tensor* tensor, Event* event) noexcept {
  return memory_call(index, [=] {
    const c10::InferenceMode inference;
    const at::Device device(at::kCUDA, require_device(index));
    const at::Tensor source = to_aten(*from);
    const c10::StreamGuard queue(copy_stream(device));
    at::Tensor copy = at::empty(source.sizes(), at::TensorOptions(device).dtype(source.scalar_type()));
    queue_copy(source, copy);  // between two devices, libtorch makes each stream wait for the other
    *event = Event(std::make_shared<QueuedWork>(queue.current_stream()));
    replace_tensor(std::move(copy), *tensor);
  });
}

}  // namespace calls
}  // namespace kpt::aten
