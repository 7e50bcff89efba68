// Runs on a stream of a GPU, through libtorch's interface that knows no vendor: what the modules for GPUs share.
#pragma once

#include <cstdint>
#include <exception>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/Stream.h>
#include <c10/core/StreamGuard.h>

#include "device/execution.h"
#include "engines/aten/module/device_memory.h"
#include "engines/aten/module/loaded_graph.h"
#include "engines/aten/module/tensors.h"
#include "engines/aten/module/warning_sink.h"

namespace kpt::aten {

// The work that was queued on a stream before it was made.
class QueuedWork final : public Event::Impl {
 public:
  explicit QueuedWork(const c10::Stream& stream) : event_(stream.device_type()) { event_.record(stream); }
  Status wait() override;
  bool done() const override;

 private:
  c10::Event event_;
};

// Times of nodes mean something only when the device has done the work.
class WaitingObserver final : public NodeObserver {
 public:
  WaitingObserver(NodeObserver* inner, const c10::Stream& stream) : inner_(inner), stream_(stream) {}
  void begin_node(std::size_t node) override {
    stream_.synchronize();
    inner_->begin_node(node);
  }
  void end_node(std::size_t node) override {
    stream_.synchronize();
    inner_->end_node(node);
  }

 private:
  NodeObserver* inner_;
  c10::Stream stream_;
};

// A run that would not fit: nothing of it was launched.
class NotAdmitted : public std::exception {
 public:
  explicit NotAdmitted(Status status) : status_(std::move(status)) {}
  const Status& status() const { return status_; }
  const char* what() const noexcept override { return "too little memory for a run"; }

 private:
  Status status_;
};

// What runs need, by estimate: results that are alive at once, made once for each set of sizes, and inputs that are not
// on the device yet. Not thread safe; the graph must outlive it.
class RunEstimates {
 public:
  explicit RunEstimates(const LoadedGraph& loaded);
  std::uint64_t get(std::span<const Tensor> inputs);

 private:
  using Key = std::vector<std::int64_t>;
  const LoadedGraph& loaded_;
  std::vector<std::uint32_t> roots_;                // for each value: who may share its memory
  std::list<std::pair<Key, std::uint64_t>> known_;  // most recently used first
};

// Throws RunStopped for a run that is over before it starts, and CallFailure for one that lacks a state.
void check_start(const LoadedGraph& loaded, const RunContext& context);

// That a state could not be made, for want of the device's memory or the host's.
Status describe_missing_state(const std::exception& error, c10::DeviceIndex device);

// Fails with kInvalidArgument.
Status check_input_count(const LoadedGraph& loaded, std::span<const Tensor> inputs);
// Whether a run may be started again after it failed: it wrote nothing that is seen.
bool is_repeatable(const LoadedGraph& loaded);

// Puts a result behind `output`, on the host unless `on_device`. `owned`: nobody else shares its memory.
void deliver(at::Tensor tensor, bool owned, bool on_device, Tensor& output);

// Queues all of a run on the current stream: inputs, nodes, what the graph writes, outputs. `position` follows the step
// at work. Throws what libtorch throws; the frame cannot be used again then.
void queue_nodes(const LoadedGraph& loaded, Frame& frame, const RunContext& context, NodeObserver* observer,
                 std::span<const Tensor> inputs, std::vector<Tensor>& outputs, std::uint32_t& position);

// One run of an executable: `first` queues it on `stream`, under `mutex`. Where memory ran out and nothing was written,
// `again` gives memory back and queues it once more. Both take the position of the step at work, for failures. Fails as
// Executable::run().
template <typename First, typename Again>
Status run_queued(const LoadedGraph& loaded, const c10::Stream& stream, std::mutex& mutex,
                  std::span<const Tensor> inputs, Event* event, const First& first, const Again& again) {
  KPT_RETURN_IF_ERROR(check_input_count(loaded, inputs));
  const auto end = static_cast<std::uint32_t>(loaded.compiled().steps().size());
  const c10::DeviceIndex device = loaded.device().index();
  auto position = end;
  Event queued;
  try {
    const c10::InferenceMode inference;
    const c10::WarningUtils::WarningHandlerGuard warnings(&WarningSink::instance());
    const c10::StreamGuard queue(stream);
    const std::lock_guard lock(mutex);
    try {
      first(position);
    } catch (const std::exception& error) {
      if (!is_repeatable(loaded) || !ran_out_of_memory(error, device)) throw;
      count_retry(device);
      position = end;
      again(position);
    }
    queued = Event(std::make_shared<QueuedWork>(stream));
  } catch (const NotAdmitted& refusal) {
    count_out_of_memory(device);
    return refusal.status();
  } catch (const std::exception& error) {
    Status failure = loaded.current_failure(position);
    if (failure.code() == StatusCode::kVendorLibrary && ran_out_of_memory(error, device)) {
      failure = {StatusCode::kOutOfMemory, failure.message(), kGpuKind.vendor};
    }
    return describe_shortage(std::move(failure), device);
  } catch (...) {
    return loaded.current_failure(position);
  }
  if (event != nullptr) {
    *event = std::move(queued);
    return {};
  }
  return queued.wait();
}

}  // namespace kpt::aten
