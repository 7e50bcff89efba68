#include "engines/aten/cuda/cuda_executable.h"

#include <algorithm>
#include <mutex>

#include <ATen/Functions.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <fmt/format.h>
#include <ATen/cuda/CUDAGraphsUtils.cuh>

#include "engines/aten/cuda/nvtx_ranges.h"
#include "engines/aten/cuda/process_settings.h"
#include "engines/aten/module/device_memory.h"
#include "engines/aten/module/graph_state.h"
#include "engines/aten/module/guarded_call.h"
#include "engines/aten/module/tensors.h"
#include "memory/available_memory.h"

namespace kpt::aten {
namespace {

// A server with this many shapes captures each once.
constexpr std::size_t kShapesKept = 32;
// A captured run of a model with a state keeps that state's memory: sessions come and go.
constexpr std::size_t kStatefulShapesKept = 4;
// A capture that fails costs about as much as a run. The wait doubles when shapes drive each other out.
constexpr int kRunsUntilRetry = 64;
constexpr int kMostDoublings = 6;

// Every captured graph registers with libtorch's random generator of the device, which is guarded by nothing: held
// while a graph is captured and while one is destroyed, whichever model it belongs to.
std::mutex& capture_mutex() {
  static std::mutex mutex;
  return mutex;
}

std::string megabytes(std::uint64_t bytes) { return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6); }

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
      run_name_(fmt::format("run of {} nodes on {}", loaded_->graph().nodes.size(), device_)),
      estimates_(*loaded_) {
  if (policy_.nvtx) {
    for (const ir::Node& node : loaded_->graph().nodes) node_names_.push_back(node.name + " " + node.target);
  }
  keepers_of(loaded_->device().index()).add(*this);
}

CudaExecutable::~CudaExecutable() {
  keepers_of(loaded_->device().index()).remove(*this);
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
    return attempt_with_kept_memory(loaded_->device().index(), [&]() -> Result<std::unique_ptr<State>> {
      return std::unique_ptr<State>(std::make_unique<GraphState>(loaded_->weights(), loaded_->device()));
    });
  } catch (const std::exception& error) {
    return describe_missing_state(error, loaded_->device().index());
  }
}

std::string CudaExecutable::describe_runs() const {
  std::string rounding = policy_.tf32 ? "; products and convolutions of float32 may round to TF32 (nvidia.tf32)" : "";
  if (policy_.tune_products) rounding += "; algorithms of kpt.linear by measuring (nvidia.tune)";
  if (policy_.tune_convolutions) rounding += "; algorithms of convolutions by measuring (nvidia.tune)";
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

void CudaExecutable::drop_graphs() {
  stream_.synchronize();  // the last one may be at work
  const std::lock_guard lock(capture_mutex());
  for (Shape& shape : shapes_) {
    if (shape.graph == nullptr) continue;
    shape.inputs.clear();
    shape.outputs.clear();
    shape.state.clear();
    shape.graph.reset();
    shape.runs_until_retry = kRunsUntilRetry;
  }
  frame_.reset();
  captured_bytes_ = 0;
  captured_idle_bytes_ = 0;
  refusal_ = "memory of its captured runs went to another model";
  c10::cuda::CUDACachingAllocator::emptyCache(pool_);
}

std::uint64_t CudaExecutable::give_up() noexcept {
  try {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock() || !has_captured()) return 0;
    const std::uint64_t bytes = captured_bytes_;
    drop_graphs();
    return bytes;
  } catch (const std::exception&) {  // the device is lost
    return 0;
  }
}

bool CudaExecutable::has_captured() const {
  return std::any_of(shapes_.begin(), shapes_.end(), [](const Shape& shape) { return shape.graph != nullptr; });
}

void CudaExecutable::count_captured() {
  std::uint64_t bytes = 0;
  captured_idle_bytes_ = 0;
  for (const auto& segment : c10::cuda::CUDACachingAllocator::snapshot(pool_, false).segments) {
    bytes += segment.total_size;
    captured_idle_bytes_ += segment.total_size - std::min(segment.total_size, segment.allocated_size);
  }
  for (const Shape& shape : shapes_) {
    for (const at::Tensor& input : shape.inputs) bytes += input.nbytes();
  }
  captured_bytes_ = bytes;
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

Status CudaExecutable::check_memory(std::uint64_t needed, std::uint64_t regained) const {
  MemoryStatistics memory = read_memory(loaded_->device().index());
  if (memory.free_bytes) *memory.free_bytes += regained;
  if (memory.reserved_bytes) *memory.reserved_bytes -= std::min(*memory.reserved_bytes, captured_idle_bytes_);
  return check_available(memory, needed, limits_.margin_bytes, Vendor::kNvidia, "a run with inputs of these sizes");
}

void CudaExecutable::admit(std::span<const Tensor> inputs) {
  const std::uint64_t needed = estimates_.get(inputs);
  // A run like the last one takes nothing from the driver, so it is not asked.
  const std::uint64_t kept = count_kept(loaded_->device().index());
  if (needed <= kept - std::min(kept, captured_idle_bytes_)) return;
  Status status = check_memory(needed);
  if (status.ok()) return;
  MemoryKeepers& keepers = keepers_of(loaded_->device().index());
  // Otherwise captured runs would be given up for nothing.
  if (check_memory(needed, captured_bytes_ + keepers.count_others(this)).ok()) {
    forget_shapes();
    empty_cache();
    status = check_memory(needed);
    while (!status.ok() && keepers.give_up_one(this) > 0) status = check_memory(needed);
  }
  if (!status.ok()) throw NotAdmitted(std::move(status));
}

void CudaExecutable::run_nodes(RunContext& context, std::span<const Tensor> inputs, std::vector<Tensor>& outputs,
                               std::uint32_t& position) {
  const Tf32Work rounding(takes_tf32(context));
  const TunedWork choosing(policy_.tune_convolutions);
  admit(inputs);
  // Measuring waits for the device, which CUDA forbids while anything is captured.
  std::unique_lock<std::mutex> measuring(capture_mutex(), std::defer_lock);
  if (measures()) measuring.lock();
  std::unique_ptr<Frame> frame = frame_ ? std::move(frame_) : loaded_->make_frame();
  WaitingObserver waiting(context.observer, stream_);
  NodeObserver* const observer = context.observer == nullptr ? nullptr : &waiting;
  NvtxNodes ranges(node_names_, observer);
  queue_nodes(*loaded_, *frame, context, policy_.nvtx ? &ranges : observer, inputs, outputs, position);
  frame_ = std::move(frame);  // after a failure it goes with what it holds
}

std::unique_ptr<Frame> CudaExecutable::run_in_place(const Shape& shape, State* state) const {
  std::unique_ptr<Frame> frame = loaded_->make_frame();
  for (std::size_t index = 0; index < shape.inputs.size(); ++index) {
    frame->inputs[index].tensor = shape.inputs[index];
    frame->slots[loaded_->inputs()[index].slot] = shape.inputs[index];
  }
  loaded_->bind_state(state, *frame);
  std::uint32_t position = 0;
  run_steps(loaded_->compiled(), *frame, RunLimits{}, position);
  return frame;
}

void CudaExecutable::record(Shape& shape, State* state, std::span<const Tensor> inputs) {
  const std::unique_ptr<Frame> frame = run_in_place(shape, state);
  loaded_->store_mutations(inputs, *frame);
  for (std::size_t index = 0; index < loaded_->outputs().size(); ++index) {
    bool owned = true;
    shape.outputs.push_back(loaded_->take_output(index, *frame, state, &owned));
  }
}

bool CudaExecutable::capture(Shape& shape, RunContext& context, std::span<const Tensor> inputs) {
  const Tf32Work rounding(takes_tf32(context));
  const TunedWork choosing(policy_.tune_convolutions && measures_before_capture());
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
    if (measures_before_capture()) {
      for (std::size_t index = 0; index < inputs.size(); ++index) shape.inputs[index].copy_(to_aten(inputs[index]));
      run_in_place(shape, context.state);
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
  check_start(*loaded_, context);
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

Status CudaExecutable::run(RunContext& context, std::span<const Tensor> inputs, std::vector<Tensor>& outputs,
                           Event* event) {
  use();
  const auto first = [&](std::uint32_t& position) {
    const NvtxRange range(policy_.nvtx ? &run_name_ : nullptr);
    run_once(context, inputs, outputs, position);
  };
  const auto again = [&](std::uint32_t& position) {
    static_cast<void>(cudaGetLastError());
    // Captured graphs, those of idle models too, and what libtorch keeps for later are ours to give up.
    outputs.clear();
    forget_shapes();
    while (keepers_of(loaded_->device().index()).give_up_one(this) > 0) {
    }
    empty_cache();
    run_nodes(context, inputs, outputs, position);
  };
  return run_queued(*loaded_, stream_, mutex_, inputs, event, first, again);
}

}  // namespace kpt::aten
