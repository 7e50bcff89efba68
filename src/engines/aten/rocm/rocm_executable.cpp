#include "engines/aten/rocm/rocm_executable.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>

#include "engines/aten/module/graph_state.h"
#include "engines/aten/module/guarded_call.h"
#include "engines/aten/rocm/rocm_launch.h"
#include "memory/available_memory.h"

namespace kpt::aten {
namespace {

// A stream of libtorch's as its runtime knows it; the function has had two names.
template <typename Stream>
Result<void*> find_handle(const Stream& stream) {
  try {
    if constexpr (requires { stream.native_handle(); }) {
      return stream.native_handle();
    } else if constexpr (requires { stream.stream_handle(); }) {
      return stream.stream_handle();
    }
  } catch (const std::exception& error) {
    return Status(StatusCode::kUnsupported,
                  "libtorch does not hand out its stream, which kernels of ours need: " + first_line(error),
                  kGpuKind.vendor);
  }
  return Status(StatusCode::kUnsupported,
                "this version of libtorch does not hand out its stream, which kernels of ours need", kGpuKind.vendor);
}

}  // namespace

RocmExecutable::RocmExecutable(std::unique_ptr<LoadedGraph> loaded, const c10::Stream& stream,
                               std::uint64_t margin_bytes, std::shared_ptr<gpu::Launcher> launcher, void* queue)
    : device_(device_name(loaded->device())),
      loaded_(std::move(loaded)),
      stream_(stream),
      launcher_(std::move(launcher)),
      queue_(queue),
      margin_bytes_(margin_bytes),
      estimates_(*loaded_) {}

RocmExecutable::~RocmExecutable() {
  try {
    stream_.synchronize();           // nothing that is still queued may find its memory gone
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the device is lost, and with it the work
  }
}

Result<std::unique_ptr<Executable>> RocmExecutable::load(c10::DeviceIndex index, std::shared_ptr<const ir::Graph> graph,
                                                         const Weights& weights, std::uint64_t margin_bytes,
                                                         std::shared_ptr<gpu::Launcher> launcher) {
  const at::Device device(at::kCUDA, index);
  const c10::Stream stream = c10::impl::VirtualGuardImpl(at::kCUDA).getStreamFromGlobalPool(device);
  void* handle = nullptr;
  if (launcher != nullptr) {
    KPT_ASSIGN_OR_RETURN(handle, find_handle(stream));
  }
  const c10::StreamGuard queue(stream);
  KPT_ASSIGN_OR_RETURN(auto loaded, LoadedGraph::load(std::move(graph), weights, device, false));
  stream.synchronize();
  return std::unique_ptr<Executable>(
      new RocmExecutable(std::move(loaded), stream, margin_bytes, std::move(launcher), handle));
}

Result<std::unique_ptr<State>> RocmExecutable::make_state() const {
  try {
    const c10::StreamGuard queue(stream_);
    return std::unique_ptr<State>(std::make_unique<GraphState>(loaded_->weights(), loaded_->device()));
  } catch (const std::exception& error) {
    return describe_missing_state(error, loaded_->device().index());
  }
}

void RocmExecutable::admit(std::span<const Tensor> inputs) {
  const c10::DeviceIndex index = loaded_->device().index();
  const std::uint64_t needed = estimates_.get(inputs);
  // A run like the last one takes nothing from the driver, so it is not asked.
  if (needed <= count_kept(index)) return;
  Status status =
      check_available(read_memory(index), needed, margin_bytes_, kGpuKind.vendor, "a run with inputs of these sizes");
  if (!status.ok()) throw NotAdmitted(std::move(status));
}

void RocmExecutable::run_nodes(RunContext& context, std::span<const Tensor> inputs, std::vector<Tensor>& outputs,
                               std::uint32_t& position) {
  admit(inputs);
  const LauncherScope kernels(launcher_.get(), queue_);
  std::unique_ptr<Frame> frame = frame_ ? std::move(frame_) : loaded_->make_frame();
  WaitingObserver waiting(context.observer, stream_);
  queue_nodes(*loaded_, *frame, context, context.observer == nullptr ? nullptr : &waiting, inputs, outputs, position);
  frame_ = std::move(frame);  // after a failure it goes with what it holds
}

Status RocmExecutable::run(RunContext& context, std::span<const Tensor> inputs, std::vector<Tensor>& outputs,
                           Event* event) {
  const auto first = [&](std::uint32_t& position) {
    check_start(*loaded_, context);
    run_nodes(context, inputs, outputs, position);
  };
  const auto again = [&](std::uint32_t& position) {
    outputs.clear();
    stream_.synchronize();
    empty_device_cache();
    run_nodes(context, inputs, outputs, position);
  };
  return run_queued(*loaded_, stream_, mutex_, inputs, event, first, again);
}

}  // namespace kpt::aten
