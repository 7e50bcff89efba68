#include "engines/aten/module/device_run.h"

#include <algorithm>

#include <ATen/Functions.h>
#include <fmt/format.h>

#include "engines/aten/module/guarded_call.h"
#include "memory/run_estimate.h"

namespace kpt::aten {
namespace {

// A server with this many shapes estimates each once.
constexpr std::size_t kEstimatesKept = 32;

}  // namespace

Status QueuedWork::wait() {
  try {
    event_.synchronize();
    return {};
  } catch (const std::exception& error) {
    return {StatusCode::kDevice, "the device failed while it worked: " + first_line(error), kGpuKind.vendor};
  }
}

bool QueuedWork::done() const {
  try {
    return event_.query();
  } catch (const std::exception&) {
    return true;  // the device failed, as wait() tells
  }
}

RunEstimates::RunEstimates(const LoadedGraph& loaded) : loaded_(loaded) {
  for (std::uint32_t value = 0; value < loaded.graph().values.size(); ++value) {
    roots_.push_back(loaded.compiled().aliases().root(value));
  }
}

std::uint64_t RunEstimates::get(std::span<const Tensor> inputs) {
  Key key;
  std::uint64_t moved = 0;
  for (const Tensor& input : inputs) {
    key.push_back(static_cast<std::int64_t>(input.dims().size()));
    key.insert(key.end(), input.dims().begin(), input.dims().end());
    if (input.device() != device_name(loaded_.device())) moved += input.bytes();
  }
  const auto found = std::find_if(known_.begin(), known_.end(), [&](const auto& known) { return known.first == key; });
  if (found != known_.end()) {
    known_.splice(known_.begin(), known_, found);
  } else {
    if (known_.size() >= kEstimatesKept) known_.pop_back();
    const RunEstimate estimate = estimate_run(loaded_.graph(), bind_extents(loaded_.graph(), inputs), roots_);
    known_.emplace_front(std::move(key), estimate.bytes);
  }
  return known_.front().second + moved;
}

Status describe_missing_state(const std::exception& error, c10::DeviceIndex device) {
  const Vendor vendor = is_host_shortage(error) ? Vendor::kNone : kGpuKind.vendor;
  return describe_shortage(
      {StatusCode::kOutOfMemory, fmt::format("a state could not be made: {}", first_line(error)), vendor}, device);
}

Status check_input_count(const LoadedGraph& loaded, std::span<const Tensor> inputs) {
  if (inputs.size() == loaded.inputs().size()) return {};
  return {StatusCode::kInvalidArgument,
          fmt::format("the model takes {} inputs, {} were given", loaded.inputs().size(), inputs.size())};
}

bool is_repeatable(const LoadedGraph& loaded) {
  return !loaded.is_stateful() && std::none_of(loaded.inputs().begin(), loaded.inputs().end(),
                                               [](const UserInput& input) { return input.written; });
}

void check_start(const LoadedGraph& loaded, const RunContext& context) {
  if (context.cancelled != nullptr && context.cancelled->load()) throw RunStopped(StatusCode::kCancelled);
  if (context.deadline && std::chrono::steady_clock::now() >= *context.deadline) {
    throw RunStopped(StatusCode::kDeadlineExceeded);
  }
  if (loaded.is_stateful() && context.state == nullptr) {
    throw CallFailure(CallCode::kInvalidArgument, "the model writes buffers, so a run needs a state");
  }
}

void deliver(at::Tensor tensor, bool owned, bool on_device, Tensor& output) {
  if (!tensor.defined()) {
    output = Tensor();
    return;
  }
  if (tensor.is_cuda() && !on_device) {
    at::Tensor host = at::empty(tensor.sizes(), at::TensorOptions().dtype(tensor.scalar_type()).pinned_memory(true));
    host.copy_(tensor, /*non_blocking=*/true);
    tensor = std::move(host);
  } else if (!owned) {
    tensor = tensor.clone();
  }
  replace_tensor(std::move(tensor), output);
}

void queue_nodes(const LoadedGraph& loaded, Frame& frame, const RunContext& context, NodeObserver* observer,
                 std::span<const Tensor> inputs, std::vector<Tensor>& outputs, std::uint32_t& position) {
  const std::string_view device = device_name(loaded.device());
  for (std::size_t index = 0; index < inputs.size(); ++index) {
    if (loaded.bind_number(index, inputs[index], frame)) continue;
    const UserInput& user = loaded.inputs()[index];
    // Pinned memory, such as outputs of earlier runs, is read while the run is at work; other memory before this
    // returns.
    at::Tensor tensor = to_aten(inputs[index]).to(loaded.device(), /*non_blocking=*/true);
    if (user.written && inputs[index].device() == device && !inputs[index].buffer()->writable()) {
      tensor = tensor.clone();
    }
    frame.inputs[index].tensor = tensor;
    frame.slots[user.slot] = std::move(tensor);
  }
  loaded.bind_state(context.state, frame);
  RunLimits limits;
  limits.deadline = context.deadline ? &*context.deadline : nullptr;
  limits.cancelled = context.cancelled;
  limits.observer = observer;
  run_steps(loaded.compiled(), frame, limits, position);
  loaded.store_mutations(inputs, frame);
  for (std::size_t index = 0; index < inputs.size(); ++index) {
    const bool here = inputs[index].device() == device;
    if (!loaded.inputs()[index].written || here || !inputs[index].buffer()->writable()) continue;
    to_aten(inputs[index]).copy_(frame.inputs[index].tensor);
  }
  outputs.resize(loaded.outputs().size());
  for (std::size_t index = 0; index < outputs.size(); ++index) {
    bool owned = true;
    at::Tensor tensor = loaded.take_output(index, frame, context.state, &owned);
    deliver(std::move(tensor), owned, context.outputs_on_device, outputs[index]);
  }
  loaded.release(frame);
  for (BoundInput& input : frame.inputs) input.tensor = at::Tensor();
}

}  // namespace kpt::aten
