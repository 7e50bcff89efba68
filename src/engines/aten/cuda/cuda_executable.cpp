#include "engines/aten/cuda/cuda_executable.h"

#include <algorithm>
#include <iterator>

#include <ATen/Functions.h>
#include <ATen/cuda/CUDAEvent.h>
#include <c10/core/InferenceMode.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <fmt/format.h>
#include <ATen/cuda/CUDAGraphsUtils.cuh>

#include "engines/aten/cuda/cuda_memory.h"
#include "engines/aten/cuda/nvtx_ranges.h"
#include "engines/aten/cuda/tf32.h"
#include "engines/aten/module/graph_state.h"
#include "engines/aten/module/guarded_call.h"
#include "engines/aten/module/tensors.h"
#include "engines/aten/module/warning_sink.h"
#include "memory/available_memory.h"
#include "memory/run_estimate.h"

namespace kpt::aten {
namespace {

// A server with this many shapes captures each once.
constexpr std::size_t kShapesKept = 32;
// A captured run of a model with a state keeps that state's memory: sessions come and go.
constexpr std::size_t kStatefulShapesKept = 4;
// A capture that fails costs about as much as a run. The wait doubles when shapes drive each other out.
constexpr int kRunsUntilRetry = 64;
constexpr int kMostDoublings = 6;

// What the vendor's libraries fail with when their own allocations do.
constexpr const char* kFailuresWithoutMemory[] = {"CUDNN_STATUS_ALLOC_FAILED",     "CUDNN_STATUS_INTERNAL_ERROR",
                                                  "CUDNN_STATUS_NOT_INITIALIZED",  "CUBLAS_STATUS_ALLOC_FAILED",
                                                  "CUBLAS_STATUS_NOT_INITIALIZED", "CUDA error: out of memory"};
constexpr std::uint64_t kLibrariesNeed = std::uint64_t{512} << 20;

// Every captured graph registers with libtorch's random generator of the device, which is guarded by nothing: held
// while a graph is captured and while one is destroyed, whichever model it belongs to.
std::mutex& capture_mutex() {
  static std::mutex mutex;
  return mutex;
}

std::string megabytes(std::uint64_t bytes) { return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6); }

// The work that was queued before it was made.
class QueuedWork final : public Event::Impl {
 public:
  explicit QueuedWork(const c10::cuda::CUDAStream& stream) { event_.record(stream); }

  Status wait() override {
    try {
      event_.synchronize();
      return {};
    } catch (const std::exception& error) {
      return {StatusCode::kDevice, "the device failed while it worked: " + first_line(error), Vendor::kNvidia};
    }
  }
  bool done() const override { return event_.query(); }

 private:
  at::cuda::CUDAEvent event_;
};

// Times of nodes mean something only when the device has done the work.
class WaitingObserver final : public NodeObserver {
 public:
  WaitingObserver(NodeObserver* inner, const c10::cuda::CUDAStream& stream) : inner_(inner), stream_(stream) {}
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
  c10::cuda::CUDAStream stream_;
};

// `owned`: nobody else shares its memory.
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

// Whether memory is what was missing. cuDNN and cuBLAS take some past libtorch's allocator and say little when there is
// none: then the driver's free bytes tell.
bool ran_out_of_memory(const std::exception& error, c10::DeviceIndex device) {
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr) return true;
  const std::string text = first_line(error);
  const bool may_be = std::any_of(std::begin(kFailuresWithoutMemory), std::end(kFailuresWithoutMemory),
                                  [&](const char* name) { return text.find(name) != std::string::npos; });
  if (!may_be) return false;
  try {
    return c10::cuda::CUDACachingAllocator::get()->getMemoryInfo(device).first < kLibrariesNeed;
  } catch (const std::exception&) {  // the device is lost
    return false;
  }
}

// A run that would not fit: nothing of it was launched.
class NotAdmitted : public std::exception {
 public:
  explicit NotAdmitted(Status status) : status_(std::move(status)) {}
  const Status& status() const { return status_; }
  const char* what() const noexcept override { return "too little memory for a run"; }

 private:
  Status status_;
};

std::string find_obstacle(const LoadedGraph& graph) {
  for (const UserInput& input : graph.inputs()) {
    if (input.written || input.reshaped) return fmt::format("the model writes its input '{}'", input.name);
    if (graph.graph().values[input.slot].kind != ir::ValueKind::kTensor) {
      return fmt::format("its input '{}' is a number", input.name);
    }
  }
  for (const Step& step : graph.compiled().steps()) {
    if (step.kind == Step::Kind::kCond || step.kind == Step::Kind::kWhile) {
      return fmt::format("node '{}' decides on the host what runs next", graph.graph().nodes[step.node].name);
    }
  }
  return {};
}

}  // namespace

CudaExecutable::CudaExecutable(std::unique_ptr<LoadedGraph> loaded, c10::cuda::CUDAStream stream,
                               CudaMemoryLimits limits, const NvidiaPolicy& policy)
    : device_(device_name(loaded->device())),
      loaded_(std::move(loaded)),
      stream_(stream),
      pool_(at::cuda::graph_pool_handle()),
      never_(find_obstacle(*loaded_)),
      limits_(limits),
      policy_(policy),
      run_name_(fmt::format("run of {} nodes on {}", loaded_->graph().nodes.size(), device_)) {
  for (std::uint32_t value = 0; value < loaded_->graph().values.size(); ++value) {
    roots_.push_back(loaded_->compiled().aliases().root(value));
  }
  if (!policy_.nvtx) return;
  for (const ir::Node& node : loaded_->graph().nodes) node_names_.push_back(node.name + " " + node.target);
}

CudaExecutable::~CudaExecutable() {
  try {
    stream_.synchronize();           // nothing that is still queued may find its memory gone
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the device is lost, and with it the work
  }
  const std::lock_guard lock(capture_mutex());
  shapes_.clear();
}

Result<std::unique_ptr<Executable>> CudaExecutable::load(c10::DeviceIndex index, std::shared_ptr<const ir::Graph> graph,
                                                         const Weights& weights, CudaMemoryLimits limits,
                                                         const NvidiaPolicy& policy) {
  const c10::cuda::CUDAGuard current(index);
  const c10::cuda::CUDAStream stream = c10::cuda::getStreamFromPool(/*isHighPriority=*/false, index);
  const c10::cuda::CUDAStreamGuard queue(stream);
  KPT_ASSIGN_OR_RETURN(auto loaded,
                       LoadedGraph::load(std::move(graph), weights, at::Device(at::kCUDA, index), false, policy));
  stream.synchronize();
  if (limits.graph_bytes == 0) {
    limits.graph_bytes = c10::cuda::CUDACachingAllocator::get()->getMemoryInfo(index).second / 8;
  }
  return std::unique_ptr<Executable>(new CudaExecutable(std::move(loaded), stream, limits, policy));
}

void CudaExecutable::empty_cache() {
  const std::lock_guard lock(capture_mutex());
  c10::cuda::CUDACachingAllocator::emptyCache();
}

Result<std::unique_ptr<State>> CudaExecutable::make_state() const {
  try {
    const c10::cuda::CUDAStreamGuard queue(stream_);
    return std::unique_ptr<State>(std::make_unique<GraphState>(loaded_->weights(), loaded_->device()));
  } catch (const std::exception& error) {
    return describe_shortage(
        {StatusCode::kOutOfMemory, fmt::format("a state could not be made: {}", first_line(error)), Vendor::kNvidia});
  }
}

std::string CudaExecutable::describe_runs() const {
  const std::string_view rounding =
      policy_.tf32 ? "; products and convolutions of float32 may round to TF32 (nvidia.tf32)" : "";
  if (!never_.empty()) return fmt::format("node by node: {}{}", never_, rounding);
  const std::lock_guard lock(mutex_);
  const auto captured =
      std::count_if(shapes_.begin(), shapes_.end(), [](const Shape& shape) { return shape.graph != nullptr; });
  std::string text = fmt::format("as a CUDA graph from the second run of a shape on; {} captured so far", captured);
  if (captured > 0)
    text += fmt::format(", {} of at most {}", megabytes(captured_bytes_), megabytes(limits_.graph_bytes));
  const bool some_refused = std::any_of(shapes_.begin(), shapes_.end(),
                                        [](const Shape& shape) { return shape.refused || shape.runs_until_retry > 0; });
  if (some_refused) text += fmt::format("; node by node where capturing failed: {}", refusal_);
  return text.append(rounding);
}

CudaExecutable::Key CudaExecutable::make_key(std::span<const Tensor> inputs, const RunContext& context) const {
  Key key = {takes_tf32(context) ? 1 : 0};
  for (const Tensor& input : inputs) {
    key.push_back(static_cast<std::int64_t>(input.dims().size()));
    key.insert(key.end(), input.dims().begin(), input.dims().end());
  }
  if (!loaded_->is_stateful() || context.state == nullptr) return key;
  for (const LoadedWeight& weight : loaded_->weights()) {
    if (!weight.written) continue;
    const void* address = static_cast<const GraphState*>(context.state)->tensor(weight.name).const_data_ptr();
    key.push_back(static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(address)));
  }
  return key;
}

CudaExecutable::Shape* CudaExecutable::find_shape(const Key& key) {
  const auto found = std::find_if(shapes_.begin(), shapes_.end(), [&](const Shape& shape) { return shape.key == key; });
  if (found == shapes_.end()) return nullptr;
  shapes_.splice(shapes_.begin(), shapes_, found);
  return &shapes_.front();
}

void CudaExecutable::remember_shape(Key key) {
  const std::size_t most = loaded_->is_stateful() ? kStatefulShapesKept : kShapesKept;
  if (shapes_.size() >= most) {
    stream_.synchronize();  // the last one may be at work
    const std::lock_guard lock(capture_mutex());
    shapes_.pop_back();
  }
  shapes_.emplace_front();
  shapes_.front().key = std::move(key);
}

void CudaExecutable::forget_shapes() {
  stream_.synchronize();
  {
    const std::lock_guard lock(capture_mutex());
    shapes_.clear();
  }
  frame_.reset();
  captured_bytes_ = 0;
  captured_idle_bytes_ = 0;
}

bool CudaExecutable::has_captured() const {
  return std::any_of(shapes_.begin(), shapes_.end(), [](const Shape& shape) { return shape.graph != nullptr; });
}

void CudaExecutable::count_captured() {
  captured_bytes_ = 0;
  captured_idle_bytes_ = 0;
  for (const auto& segment : c10::cuda::CUDACachingAllocator::snapshot(pool_, false).segments) {
    captured_bytes_ += segment.total_size;
    captured_idle_bytes_ += segment.total_size - std::min(segment.total_size, segment.allocated_size);
  }
  for (const Shape& shape : shapes_) {
    for (const at::Tensor& input : shape.inputs) captured_bytes_ += input.nbytes();
  }
}

bool CudaExecutable::fits(const Shape& shape) {
  count_captured();
  if (captured_bytes_ <= limits_.graph_bytes) return true;
  const auto captured =
      std::count_if(shapes_.begin(), shapes_.end(), [](const Shape& other) { return other.graph != nullptr; });
  const std::string needed = megabytes(captured_bytes_);
  Key key = shape.key;
  forget_shapes();
  {
    const std::lock_guard lock(capture_mutex());
    c10::cuda::CUDACachingAllocator::emptyCache(pool_);
  }
  remember_shape(std::move(key));
  Shape& again = shapes_.front();
  refusal_ = fmt::format("{} would keep {}, more than the {} of nvidia.graph_memory_bytes",
                         captured > 1 ? "shapes together" : "it", needed, megabytes(limits_.graph_bytes));
  if (captured > 1) {  // alone it may fit
    again.runs_until_retry = kRunsUntilRetry << std::min(give_ups_++, kMostDoublings);
  } else {
    again.refused = true;
  }
  return false;
}

at::Tensor CudaExecutable::to_device(const Tensor& given) const {
  // Pinned memory, such as outputs of earlier runs, is read while the run is at work; other memory before this returns.
  return to_aten(given).to(loaded_->device(), /*non_blocking=*/true);
}

std::uint64_t CudaExecutable::estimate_results(std::span<const Tensor> inputs) {
  Key key = make_key(inputs, RunContext{});
  const auto found =
      std::find_if(estimates_.begin(), estimates_.end(), [&](const auto& estimate) { return estimate.first == key; });
  if (found != estimates_.end()) {
    estimates_.splice(estimates_.begin(), estimates_, found);
  } else {
    if (estimates_.size() >= kShapesKept) estimates_.pop_back();
    const RunEstimate estimate = estimate_run(loaded_->graph(), bind_extents(loaded_->graph(), inputs), roots_);
    estimates_.emplace_front(std::move(key), estimate.bytes);
  }
  return estimates_.front().second;
}

Status CudaExecutable::check_memory(std::uint64_t needed, std::uint64_t regained) const {
  MemoryStatistics memory = read_memory(loaded_->device().index());
  if (memory.free_bytes) *memory.free_bytes += regained;
  if (memory.reserved_bytes) *memory.reserved_bytes -= std::min(*memory.reserved_bytes, captured_idle_bytes_);
  return check_available(memory, needed, limits_.margin_bytes, Vendor::kNvidia, "a run with inputs of these sizes");
}

void CudaExecutable::admit(std::span<const Tensor> inputs) {
  std::uint64_t needed = estimate_results(inputs);
  for (const Tensor& input : inputs) {
    if (input.device() != device_) needed += input.bytes();
  }
  // A run like the last one takes nothing from the driver, so it is not asked.
  const std::uint64_t kept = count_kept(loaded_->device().index());
  if (needed <= kept - std::min(kept, captured_idle_bytes_)) return;
  Status status = check_memory(needed);
  if (status.ok()) return;
  if (check_memory(needed, captured_bytes_).ok()) {  // otherwise captured runs would be given up for nothing
    forget_shapes();
    empty_cache();
    status = check_memory(needed);
  }
  if (!status.ok()) throw NotAdmitted(std::move(status));
}

void CudaExecutable::run_nodes(RunContext& context, std::span<const Tensor> inputs, std::vector<Tensor>& outputs,
                               std::uint32_t& position) {
  const Tf32Work work(takes_tf32(context));
  admit(inputs);
  std::unique_ptr<Frame> frame = frame_ ? std::move(frame_) : loaded_->make_frame();
  for (std::size_t index = 0; index < inputs.size(); ++index) {
    if (loaded_->bind_number(index, inputs[index], *frame)) continue;
    const UserInput& user = loaded_->inputs()[index];
    at::Tensor tensor = to_device(inputs[index]);
    if (user.written && inputs[index].device() == device_ && !inputs[index].buffer()->writable())
      tensor = tensor.clone();
    frame->inputs[index].tensor = tensor;
    frame->slots[user.slot] = std::move(tensor);
  }
  loaded_->bind_state(context.state, *frame);
  WaitingObserver waiting(context.observer, stream_);
  RunLimits limits;
  limits.deadline = context.deadline ? &*context.deadline : nullptr;
  limits.cancelled = context.cancelled;
  limits.observer = context.observer == nullptr ? nullptr : &waiting;
  NvtxNodes ranges(node_names_, limits.observer);
  if (policy_.nvtx) limits.observer = &ranges;
  run_steps(loaded_->compiled(), *frame, limits, position);
  loaded_->store_mutations(inputs, *frame);
  for (std::size_t index = 0; index < inputs.size(); ++index) {
    const bool here = inputs[index].device() == device_;
    if (!loaded_->inputs()[index].written || here || !inputs[index].buffer()->writable()) continue;
    to_aten(inputs[index]).copy_(frame->inputs[index].tensor);
  }
  outputs.resize(loaded_->outputs().size());
  for (std::size_t index = 0; index < outputs.size(); ++index) {
    bool owned = true;
    at::Tensor tensor = loaded_->take_output(index, *frame, context.state, &owned);
    deliver(std::move(tensor), owned, context.outputs_on_device, outputs[index]);
  }
  loaded_->release(*frame);
  for (BoundInput& input : frame->inputs) input.tensor = at::Tensor();
  frame_ = std::move(frame);  // after a failure it goes with what it holds
}

void CudaExecutable::record(Shape& shape, State* state, std::span<const Tensor> inputs) {
  const std::unique_ptr<Frame> frame = loaded_->make_frame();
  for (std::size_t index = 0; index < shape.inputs.size(); ++index) {
    frame->inputs[index].tensor = shape.inputs[index];
    frame->slots[loaded_->inputs()[index].slot] = shape.inputs[index];
  }
  loaded_->bind_state(state, *frame);
  std::uint32_t position = 0;
  run_steps(loaded_->compiled(), *frame, RunLimits{}, position);
  loaded_->store_mutations(inputs, *frame);
  for (std::size_t index = 0; index < loaded_->outputs().size(); ++index) {
    bool owned = true;
    shape.outputs.push_back(loaded_->take_output(index, *frame, state, &owned));
  }
}

bool CudaExecutable::capture(Shape& shape, RunContext& context, std::span<const Tensor> inputs) {
  const Tf32Work work(takes_tf32(context));
  if (!try_capture(shape, context, inputs)) return false;
  return fits(shape);
}

bool CudaExecutable::try_capture(Shape& shape, RunContext& context, std::span<const Tensor> inputs) {
  const auto clear = [&shape] {
    shape.inputs.clear();
    shape.outputs.clear();
    shape.state.clear();
  };
  clear();
  stream_.synchronize();
  const std::lock_guard lock(capture_mutex());
  // While something is captured, cached memory is not given back for it: before a second try it is given back first.
  if (shape.ran_out) c10::cuda::CUDACachingAllocator::emptyCache();
  if (!has_captured()) pool_ = at::cuda::graph_pool_handle();  // a pool that lost its last graph is not taken again
  auto graph = std::make_unique<at::cuda::CUDAGraph>();
  std::string refusal;
  bool begun = false;
  shape.ran_out = false;
  try {
    for (const Tensor& input : inputs) {
      shape.inputs.push_back(at::empty({input.dims().data(), input.dims().size()},
                                       at::TensorOptions(loaded_->device()).dtype(to_scalar_type(input.dtype()))));
    }
    if (loaded_->is_stateful()) {
      for (const LoadedWeight& weight : loaded_->weights()) {
        if (weight.written) shape.state.push_back(static_cast<GraphState&>(*context.state).tensor(weight.name));
      }
    }
    graph->capture_begin(pool_, cudaStreamCaptureModeThreadLocal);
    begun = true;
    record(shape, context.state, inputs);
  } catch (const std::exception& error) {
    shape.ran_out = ran_out_of_memory(error, loaded_->device().index());
    refusal = shape.ran_out ? "memory ran out" : first_line(error);
  }
  try {
    if (begun) graph->capture_end();
  } catch (const std::exception& error) {
    if (refusal.empty()) refusal = first_line(error);
  }
  if (refusal.empty()) {
    shape.graph = std::move(graph);
    return true;
  }
  static_cast<void>(cudaGetLastError());  // what the refusal left behind would fail the next call
  refusal_ = std::move(refusal);
  clear();
  shape.refused = !shape.ran_out;
  shape.runs_until_retry = shape.ran_out ? kRunsUntilRetry : 0;
  return false;
}

void CudaExecutable::replay(Shape& shape, const RunContext& context, std::span<const Tensor> inputs,
                            std::vector<Tensor>& outputs) {
  for (std::size_t index = 0; index < inputs.size(); ++index) {
    shape.inputs[index].copy_(to_aten(inputs[index]), /*non_blocking=*/true);
  }
  shape.graph->replay();
  outputs.resize(shape.outputs.size());
  for (std::size_t index = 0; index < outputs.size(); ++index) {
    deliver(shape.outputs[index], false, context.outputs_on_device, outputs[index]);
  }
}

void CudaExecutable::run_once(RunContext& context, std::span<const Tensor> inputs, std::vector<Tensor>& outputs,
                              std::uint32_t& position) {
  if (context.cancelled != nullptr && context.cancelled->load()) throw RunStopped(StatusCode::kCancelled);
  if (context.deadline && std::chrono::steady_clock::now() >= *context.deadline) {
    throw RunStopped(StatusCode::kDeadlineExceeded);
  }
  if (loaded_->is_stateful() && context.state == nullptr) {
    throw CallFailure(CallCode::kInvalidArgument, "the model writes buffers, so a run needs a state");
  }
  if (!never_.empty() || context.observer != nullptr) return run_nodes(context, inputs, outputs, position);
  Key key = make_key(inputs, context);
  Shape* const shape = find_shape(key);
  if (shape == nullptr) {
    run_nodes(context, inputs, outputs, position);
    remember_shape(std::move(key));
    return;
  }
  const bool waits = shape->refused || shape->runs_until_retry > 0;
  if (shape->runs_until_retry > 0) --shape->runs_until_retry;
  if (waits || (shape->graph == nullptr && !capture(*shape, context, inputs))) {
    return run_nodes(context, inputs, outputs, position);
  }
  replay(*shape, context, inputs, outputs);
}

Status CudaExecutable::describe_shortage(Status status) const {
  if (status.code() != StatusCode::kOutOfMemory) return status;
  count_out_of_memory(loaded_->device().index());
  try {
    const auto [free_bytes, total] = c10::cuda::CUDACachingAllocator::get()->getMemoryInfo(loaded_->device().index());
    status.with("free_bytes", std::to_string(free_bytes)).with("total_bytes", std::to_string(total));
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the failure itself is what counts
  }
  return std::move(status).with("advice", "run a smaller batch, or free memory that other processes hold");
}

Status CudaExecutable::run(RunContext& context, std::span<const Tensor> inputs, std::vector<Tensor>& outputs,
                           Event* event) {
  if (inputs.size() != loaded_->inputs().size()) {
    return {StatusCode::kInvalidArgument,
            fmt::format("the model takes {} inputs, {} were given", loaded_->inputs().size(), inputs.size())};
  }
  const auto end = static_cast<std::uint32_t>(loaded_->compiled().steps().size());
  auto position = end;
  // A run that wrote something cannot be started again.
  const bool repeatable = !loaded_->is_stateful() && std::none_of(loaded_->inputs().begin(), loaded_->inputs().end(),
                                                                  [](const UserInput& input) { return input.written; });
  Event queued;
  try {
    const c10::InferenceMode inference;
    const c10::WarningUtils::WarningHandlerGuard warnings(&WarningSink::instance());
    const c10::cuda::CUDAStreamGuard queue(stream_);
    const std::lock_guard lock(mutex_);
    const NvtxRange range(policy_.nvtx ? &run_name_ : nullptr);
    try {
      run_once(context, inputs, outputs, position);
    } catch (const std::exception& error) {
      if (!repeatable || !ran_out_of_memory(error, loaded_->device().index())) throw;
      static_cast<void>(cudaGetLastError());
      // Captured graphs and what libtorch keeps for later are ours to give up.
      count_retry(loaded_->device().index());
      outputs.clear();
      forget_shapes();
      empty_cache();
      position = end;
      run_nodes(context, inputs, outputs, position);
    }
    queued = Event(std::make_shared<QueuedWork>(stream_));
  } catch (const NotAdmitted& refusal) {
    count_out_of_memory(loaded_->device().index());
    return refusal.status();
  } catch (const std::exception& error) {
    Status failure = loaded_->current_failure(position);
    if (failure.code() == StatusCode::kVendorLibrary && ran_out_of_memory(error, loaded_->device().index())) {
      failure = {StatusCode::kOutOfMemory, failure.message(), Vendor::kNvidia};
    }
    return describe_shortage(std::move(failure));
  } catch (...) {
    return loaded_->current_failure(position);
  }
  if (event != nullptr) {
    *event = std::move(queued);
    return {};
  }
  return queued.wait();
}

}  // namespace kpt::aten
