#include "engines/aten/module/graph_executable.h"

#include <algorithm>
#include <numeric>

#include <ATen/Functions.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include "engines/aten/module/allocation_report.h"
#include "engines/aten/module/graph_state.h"
#include "engines/aten/module/guarded_call.h"
#include "engines/aten/module/tensors.h"
#include "engines/aten/module/warning_sink.h"
#include "memory/offset_planner.h"

namespace kpt::aten {
namespace {

// Shapes in turn: a server with this many buckets plans each once.
constexpr std::size_t kPlansKept = 64;
// Frames beyond the number of runs at work at once serve nobody.
constexpr std::size_t kFramesKept = 64;
// A result beyond this is a lie of the file or would not fit anyway: libtorch says which when it allocates.
constexpr std::size_t kMostPlanned = std::size_t{1} << 44;

// Gives the place the densest layout in the order of its axes. False when its size does not fit 64 bits.
bool make_contiguous(MemoryPlan::Place& place, std::int64_t* last_element) {
  std::int64_t stride = 1;
  for (std::size_t axis = place.sizes.size(); axis-- > 0;) {
    place.strides[axis] = stride;
    if (__builtin_mul_overflow(stride, std::max<std::int64_t>(place.sizes[axis], 1), &stride)) return false;
  }
  *last_element = stride - 1;
  return true;
}

}  // namespace

Result<std::unique_ptr<Executable>> GraphExecutable::load(std::shared_ptr<const ir::Graph> graph,
                                                          const Weights& weights) {
  KPT_ASSIGN_OR_RETURN(auto loaded, LoadedGraph::load(std::move(graph), weights, at::kCPU, true));
  std::unique_ptr<GraphExecutable> executable(new GraphExecutable(std::move(loaded)));
  executable->frames_.reserve(kFramesKept);  // so that giving one back cannot fail
  return std::unique_ptr<Executable>(std::move(executable));
}

Result<std::unique_ptr<State>> GraphExecutable::make_state() const {
  try {
    return std::unique_ptr<State>(std::make_unique<GraphState>(loaded_->weights(), at::kCPU));
  } catch (const std::exception& error) {
    return Status(StatusCode::kOutOfMemory, fmt::format("a state could not be made: {}", error.what()));
  }
}

void GraphExecutable::find_symbols(std::span<const Tensor> inputs, std::vector<std::int64_t>& values) const {
  values.assign(graph().symbols.size(), -1);
  if (values.empty()) return;
  for (std::size_t index = 0; index < loaded_->inputs().size(); ++index) {
    const std::vector<ir::Expr>& dims = graph().values[loaded_->inputs()[index].slot].tensor.dims;
    for (std::size_t axis = 0; axis < dims.size() && axis < inputs[index].dims().size(); ++axis) {
      if (dims[axis].constant()) continue;
      const auto form = ir::find_linear(dims[axis]);
      const auto value = form ? form->solve(inputs[index].dims()[axis]) : std::nullopt;
      for (std::size_t symbol = 0; value && symbol < values.size(); ++symbol) {
        if (graph().symbols[symbol].name == form->symbol) values[symbol] = *value;
      }
    }
  }
}

std::shared_ptr<const MemoryPlan> GraphExecutable::make_plan(const std::vector<std::int64_t>& key) const {
  auto plan = std::make_shared<MemoryPlan>();
  plan->key = key;
  plan->places.resize(compiled().planned().size());
  ir::Bindings bindings;
  for (std::size_t symbol = 0; symbol < key.size(); ++symbol) {
    if (key[symbol] >= 0) bindings.set(graph().symbols[symbol].name, key[symbol]);
  }
  std::vector<Lifetime> lifetimes;
  std::vector<std::size_t> owners;
  for (std::size_t index = 0; index < plan->places.size(); ++index) {
    const PlannedResult& result = compiled().planned()[index];
    const ir::TensorType& type = graph().values[result.value].tensor;
    MemoryPlan::Place& place = plan->places[index];
    std::int64_t last_element = 0;  // of the densest layout: the recorded strides must not leave holes
    bool known = true;
    for (std::size_t axis = 0; axis < type.dims.size() && known; ++axis) {
      const auto size = type.dims[axis].evaluate(bindings);
      const auto stride = result.contiguous ? Result<std::int64_t>(0) : type.strides[axis].evaluate(bindings);
      std::int64_t reach = 0;
      known = size.ok() && stride.ok() && *size >= 0 && *stride >= 0 &&
              !__builtin_mul_overflow(std::max<std::int64_t>(*size - 1, 0), *stride, &reach) &&
              !__builtin_add_overflow(last_element, reach, &last_element);
      if (!known) break;
      place.sizes.push_back(*size);
      place.strides.push_back(*stride);
    }
    if (known && result.contiguous) known = make_contiguous(place, &last_element);
    const auto count = known ? count_elements(place.sizes) : std::nullopt;
    std::size_t bytes = 0;
    if (!count || *count == 0 || last_element != *count - 1 ||
        __builtin_mul_overflow(static_cast<std::size_t>(*count), element_bytes(type.dtype), &bytes) ||
        bytes > kMostPlanned) {
      continue;
    }
    place.dtype = to_scalar_type(type.dtype);
    place.planned = true;
    lifetimes.push_back({bytes, result.first, result.last});
    owners.push_back(index);
  }
  const ArenaPlan arena = plan_offsets(lifetimes, 64);
  for (std::size_t index = 0; index < owners.size(); ++index) plan->places[owners[index]].offset = arena.offsets[index];
  plan->arena_bytes = arena.arena_bytes;
  return plan;
}

std::shared_ptr<const MemoryPlan> GraphExecutable::get_plan(const std::vector<std::int64_t>& key) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(plans_.begin(), plans_.end(), [&](const auto& plan) { return plan->key == key; });
  if (found != plans_.end()) {
    std::rotate(plans_.begin(), found, found + 1);
    return plans_.front();
  }
  if (plans_.size() >= kPlansKept) plans_.pop_back();
  plans_.insert(plans_.begin(), make_plan(key));
  return plans_.front();
}

std::unique_ptr<Frame> GraphExecutable::take_frame(const std::vector<std::int64_t>& key) {
  {
    const std::lock_guard lock(mutex_);
    auto found = std::find_if(frames_.begin(), frames_.end(),
                              [&](const auto& frame) { return frame->plan && frame->plan->key == key; });
    if (found == frames_.end() && !frames_.empty()) found = frames_.end() - 1;
    if (found != frames_.end()) {
      std::unique_ptr<Frame> frame = std::move(*found);
      frames_.erase(found);
      return frame;
    }
  }
  return loaded_->make_frame();
}

void GraphExecutable::return_frame(std::unique_ptr<Frame> frame) noexcept {
  const std::lock_guard lock(mutex_);
  if (frames_.size() < kFramesKept) frames_.push_back(std::move(frame));
}

void GraphExecutable::bind_inputs(std::span<const Tensor> inputs, Frame& frame) const {
  for (std::size_t index = 0; index < inputs.size(); ++index) {
    const Tensor& given = inputs[index];
    if (loaded_->bind_number(index, given, frame)) continue;
    const UserInput& user = loaded_->inputs()[index];
    BoundInput& bound = frame.inputs[index];
    const at::IntArrayRef sizes(given.dims().data(), given.dims().size());
    const at::IntArrayRef strides(given.strides().data(), given.strides().size());
    const bool same = bound.tensor.defined() && bound.address == given.data() && bound.tensor.sizes() == sizes &&
                      bound.tensor.strides() == strides && !user.reshaped &&
                      bound.tensor.scalar_type() == to_scalar_type(given.dtype());
    if (!same) {
      require_address(given);
      bound.tensor =
          at::from_blob(given.data(), sizes, strides, at::TensorOptions().dtype(to_scalar_type(given.dtype())));
      bound.address = given.data();
    }
    const bool copies = user.written && !given.buffer()->writable();
    frame.slots[user.slot] = copies ? bound.tensor.clone() : bound.tensor;
  }
}

void GraphExecutable::take_outputs(Frame& frame, const State* state, std::vector<Tensor>& outputs) const {
  outputs.resize(loaded_->outputs().size());
  for (std::size_t index = 0; index < outputs.size(); ++index) {
    bool owned = true;
    at::Tensor tensor = loaded_->take_output(index, frame, state, &owned);
    if (!owned) tensor = tensor.clone();
    if (tensor.defined()) {
      replace_tensor(std::move(tensor), outputs[index]);
    } else {
      outputs[index] = Tensor();
    }
  }
}

void GraphExecutable::run_frame(RunContext& context, std::span<const Tensor> inputs, std::vector<Tensor>& outputs,
                                std::uint32_t& position) {
  const c10::InferenceMode inference;
  const c10::WarningUtils::WarningHandlerGuard warnings(&WarningSink::instance());
  static thread_local std::vector<std::int64_t> key;  // kept: a steady run allocates nothing
  find_symbols(inputs, key);
  RunLimits limits;
  limits.deadline = context.deadline ? &*context.deadline : nullptr;
  limits.cancelled = context.cancelled;
  limits.observer = context.observer;
  std::unique_ptr<Frame> frame = take_frame(key);
  if (!frame->plan || frame->plan->key != key) apply_plan(get_plan(key), *frame);
  bind_inputs(inputs, *frame);
  loaded_->bind_state(context.state, *frame);
  const AllocationReport allocations(context.observer);
  run_steps(compiled(), *frame, limits, position);
  loaded_->store_mutations(inputs, *frame);
  take_outputs(*frame, context.state, outputs);
  loaded_->release(*frame);
  return_frame(std::move(frame));  // after a failure it goes with what it holds
}

Status GraphExecutable::run(RunContext& context, std::span<const Tensor> inputs, std::vector<Tensor>& outputs,
                            Event* event) {
  if (inputs.size() != loaded_->inputs().size()) {
    return {StatusCode::kInvalidArgument,
            fmt::format("the model takes {} inputs, {} were given", loaded_->inputs().size(), inputs.size())};
  }
  if (event != nullptr) *event = Event();
  auto position = static_cast<std::uint32_t>(compiled().steps().size());
  try {
    run_frame(context, inputs, outputs, position);
    return {};
  } catch (...) {
    return loaded_->current_failure(position);
  }
}

}  // namespace kpt::aten
