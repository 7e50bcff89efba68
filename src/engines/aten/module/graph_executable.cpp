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

Status check_weight(const ir::Value& value, const std::string& name, const Tensor& weight) {
  Dims expected;
  for (const ir::Expr& dim : value.tensor.dims) {
    const auto size = dim.constant();
    if (!size) {
      return {StatusCode::kInvalidArgument, fmt::format("weight '{}' has a symbolic size in the graph", name)};
    }
    expected.push_back(*size);
  }
  if (weight.dtype() != value.tensor.dtype || !(weight.dims() == expected)) {
    return {StatusCode::kInvalidArgument,
            fmt::format("weight '{}' is {}{}, but the graph takes {}{}", name, to_string(weight.dtype()),
                        weight.dims().to_string(), to_string(value.tensor.dtype), expected.to_string())};
  }
  return {};
}

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

bool is_weight(ir::InputKind kind) {
  return kind == ir::InputKind::kParameter || kind == ir::InputKind::kBuffer || kind == ir::InputKind::kConstant;
}

void copy_named(const at::Tensor& value, const at::Tensor& target, const std::string& name) {
  if (value.sizes() != target.sizes()) {
    throw std::runtime_error(fmt::format("what the graph writes into '{}' has another shape", name));
  }
  target.copy_(value);
}

Status to_failure(const std::exception& error, StatusCode code, const CompiledGraph& compiled, std::uint32_t position) {
  const std::string text = first_line(error);
  // The CPU's allocator fails with an ordinary error; only its text tells.
  if (text.find("can't allocate memory") != std::string::npos) code = StatusCode::kOutOfMemory;
  if (position >= compiled.steps().size()) return {code, fmt::format("the run failed: {}", text)};
  const ir::Node& node = compiled.graph().nodes[compiled.steps()[position].node];
  return {code, fmt::format("node '{}' ({}) failed: {}", node.name, node.target, text)};
}

}  // namespace

Result<std::unique_ptr<Executable>> GraphExecutable::load(std::shared_ptr<const ir::Graph> graph,
                                                          const Weights& weights) {
  const c10::InferenceMode inference;
  std::unique_ptr<GraphExecutable> executable(new GraphExecutable());
  executable->graph_ = std::move(graph);
  KPT_ASSIGN_OR_RETURN(executable->compiled_, CompiledGraph::compile(*executable->graph_, at::kCPU, true));
  KPT_RETURN_IF_ERROR(executable->load_weights(weights));
  KPT_RETURN_IF_ERROR(executable->prepare_nodes());
  executable->find_user_inputs();
  executable->find_outputs();
  executable->frames_.reserve(kFramesKept);  // so that giving one back cannot fail
  return std::unique_ptr<Executable>(std::move(executable));
}

Status GraphExecutable::load_weights(const Weights& weights) {
  for (const ir::GraphInput& input : graph_->inputs) {
    if (!is_weight(input.kind)) continue;
    const auto found = weights.find(input.name);
    if (found == weights.end()) {
      return {StatusCode::kInvalidArgument, fmt::format("weight '{}' is missing", input.name)};
    }
    const Tensor& weight = found->second;
    KPT_RETURN_IF_ERROR(check_weight(graph_->at(input.value), input.name, weight));
    LoadedWeight loaded;
    loaded.slot = ir::index_of(input.value);
    loaded.name = input.name;
    loaded.source = weight;
    loaded.tensor = to_aten(weight);
    loaded.written = compiled_->aliases().is_written(loaded.slot);
    weights_.push_back(std::move(loaded));
  }
  for (const ir::GraphOutput& output : graph_->outputs) {
    if (output.kind != ir::OutputKind::kBufferMutation && output.kind != ir::OutputKind::kParameterMutation) continue;
    const auto target = std::find_if(weights_.begin(), weights_.end(),
                                     [&](const LoadedWeight& weight) { return weight.name == output.name; });
    if (target == weights_.end()) {
      return {StatusCode::kInvalidArgument, fmt::format("the graph writes '{}', which it does not take", output.name)};
    }
    target->written = true;
  }
  // What shares memory with a written weight changes with it.
  for (const LoadedWeight& weight : weights_) {
    if (!weight.written) continue;
    for (LoadedWeight& other : weights_) {
      if (other.source.buffer() == weight.source.buffer()) other.written = true;
    }
  }
  stateful_ = std::any_of(weights_.begin(), weights_.end(), [](const LoadedWeight& weight) { return weight.written; });
  return {};
}

Status GraphExecutable::prepare_nodes() {
  std::vector<const at::Tensor*> constants(graph_->values.size(), nullptr);
  for (const LoadedWeight& weight : weights_) {
    if (!weight.written) constants[weight.slot] = &weight.tensor;
  }
  return compiled_->prepare(constants);
}

void GraphExecutable::find_user_inputs() {
  for (const ir::GraphInput& input : graph_->inputs) {
    if (input.kind != ir::InputKind::kUser) continue;
    UserInput user;
    user.slot = ir::index_of(input.value);
    user.name = input.name;
    user.reshaped = compiled_->aliases().is_reshaped(user.slot);
    user.written = compiled_->aliases().is_written(user.slot) ||
                   std::any_of(graph_->outputs.begin(), graph_->outputs.end(), [&](const ir::GraphOutput& output) {
                     return output.kind == ir::OutputKind::kInputMutation && output.name == input.name;
                   });
    user_inputs_.push_back(std::move(user));
  }
}

Result<std::unique_ptr<State>> GraphExecutable::make_state() const {
  try {
    return std::unique_ptr<State>(std::make_unique<GraphState>(weights_));
  } catch (const std::exception& error) {
    return Status(StatusCode::kOutOfMemory, fmt::format("a state could not be made: {}", error.what()));
  }
}

void GraphExecutable::find_outputs() {
  const AliasSets& aliases = compiled_->aliases();
  for (const ir::GraphOutput& output : graph_->outputs) {
    const ir::ValueId* id = output.value.value_id();
    if (output.kind != ir::OutputKind::kUser || id == nullptr) continue;
    UserOutput user;
    user.slot = ir::index_of(*id);
    const std::uint32_t root = aliases.root(user.slot);
    for (std::size_t index = 0; index < user_inputs_.size(); ++index) {
      if (aliases.root(user_inputs_[index].slot) == root) user.inputs.push_back(index);
    }
    for (std::size_t index = 0; index < weights_.size(); ++index) {
      if (aliases.root(weights_[index].slot) == root) user.weights.push_back(index);
    }
    user_outputs_.push_back(std::move(user));
  }
}

void GraphExecutable::find_symbols(std::span<const Tensor> inputs, std::vector<std::int64_t>& values) const {
  values.assign(graph_->symbols.size(), -1);
  if (values.empty()) return;
  for (std::size_t index = 0; index < user_inputs_.size(); ++index) {
    const std::vector<ir::Expr>& dims = graph_->values[user_inputs_[index].slot].tensor.dims;
    for (std::size_t axis = 0; axis < dims.size() && axis < inputs[index].dims().size(); ++axis) {
      if (!dims[axis].is_symbol()) continue;
      for (std::size_t symbol = 0; symbol < values.size(); ++symbol) {
        if (graph_->symbols[symbol].name == dims[axis].name()) values[symbol] = inputs[index].dims()[axis];
      }
    }
  }
}

std::shared_ptr<const MemoryPlan> GraphExecutable::make_plan(const std::vector<std::int64_t>& key) const {
  auto plan = std::make_shared<MemoryPlan>();
  plan->key = key;
  plan->places.resize(compiled_->planned().size());
  ir::Bindings bindings;
  for (std::size_t symbol = 0; symbol < key.size(); ++symbol) {
    if (key[symbol] >= 0) bindings.set(graph_->symbols[symbol].name, key[symbol]);
  }
  std::vector<Lifetime> lifetimes;
  std::vector<std::size_t> owners;
  for (std::size_t index = 0; index < plan->places.size(); ++index) {
    const PlannedResult& result = compiled_->planned()[index];
    const ir::TensorType& type = graph_->values[result.value].tensor;
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
  auto frame = std::make_unique<Frame>(*compiled_);
  frame->inputs.resize(user_inputs_.size());
  for (const LoadedWeight& weight : weights_) frame->slots[weight.slot] = weight.tensor;
  return frame;
}

void GraphExecutable::return_frame(std::unique_ptr<Frame> frame) noexcept {
  const std::lock_guard lock(mutex_);
  if (frames_.size() < kFramesKept) frames_.push_back(std::move(frame));
}

void GraphExecutable::bind_inputs(std::span<const Tensor> inputs, Frame& frame) const {
  for (std::size_t index = 0; index < inputs.size(); ++index) {
    const Tensor& given = inputs[index];
    const ir::ValueKind kind = graph_->values[user_inputs_[index].slot].kind;
    c10::IValue& slot = frame.slots[user_inputs_[index].slot];
    if (kind != ir::ValueKind::kTensor) {
      const at::Scalar number = to_aten(given).item();
      if (kind == ir::ValueKind::kInt) slot = number.toLong();
      if (kind == ir::ValueKind::kFloat) slot = number.toDouble();
      if (kind == ir::ValueKind::kBool) slot = number.toBool();
      continue;
    }
    BoundInput& bound = frame.inputs[index];
    const at::IntArrayRef sizes(given.dims().data(), given.dims().size());
    const at::IntArrayRef strides(given.strides().data(), given.strides().size());
    const bool same = bound.tensor.defined() && bound.address == given.data() && bound.tensor.sizes() == sizes &&
                      bound.tensor.strides() == strides && !user_inputs_[index].reshaped &&
                      bound.tensor.scalar_type() == to_scalar_type(given.dtype());
    if (!same) {
      require_address(given);
      bound.tensor =
          at::from_blob(given.data(), sizes, strides, at::TensorOptions().dtype(to_scalar_type(given.dtype())));
      bound.address = given.data();
    }
    const bool copies = user_inputs_[index].written && !given.buffer()->writable();
    slot = copies ? bound.tensor.clone() : bound.tensor;
  }
}

void GraphExecutable::bind_state(State* state, Frame& frame) const {
  if (!stateful_) return;
  if (state == nullptr) {
    throw CallFailure(CallCode::kInvalidArgument, "the model writes buffers, so a run needs a state");
  }
  auto& buffers = static_cast<GraphState&>(*state);
  for (const LoadedWeight& weight : weights_) {
    if (weight.written) frame.slots[weight.slot] = buffers.tensor(weight.name);
  }
}

void GraphExecutable::store_mutations(std::span<const Tensor> inputs, Frame& frame) const {
  for (const ir::GraphOutput& output : graph_->outputs) {
    if (output.kind == ir::OutputKind::kUser) continue;
    const ir::ValueId* id = output.value.value_id();
    if (id == nullptr) continue;
    const at::Tensor& value = frame.slots[ir::index_of(*id)].toTensor();
    if (output.kind == ir::OutputKind::kInputMutation) {
      for (std::size_t index = 0; index < user_inputs_.size(); ++index) {
        // Read-only memory stays as it is: the caller cannot expect a change there.
        if (user_inputs_[index].name != output.name || !inputs[index].buffer()->writable()) continue;
        copy_named(value, frame.inputs[index].tensor, output.name);
      }
      continue;
    }
    for (const LoadedWeight& weight : weights_) {
      if (weight.name == output.name) copy_named(value, frame.slots[weight.slot].toTensor(), output.name);
    }
  }
}

// Whether memory that a caller, the file or a state owns would be handed out.
bool GraphExecutable::shares_with_caller(const at::Tensor& tensor, std::size_t output, const Frame& frame,
                                         const State* state) const {
  const auto* storage = tensor.storage().unsafeGetStorageImpl();
  const UserOutput& user = user_outputs_[output];
  for (const std::size_t index : user.inputs) {
    const at::Tensor& input = frame.inputs[index].tensor;
    if (input.defined() && input.storage().unsafeGetStorageImpl() == storage) return true;
  }
  for (const std::size_t index : user.weights) {
    const LoadedWeight& weight = weights_[index];
    const at::Tensor& owned =
        weight.written ? static_cast<const GraphState&>(*state).tensor(weight.name) : weight.tensor;
    if (owned.storage().unsafeGetStorageImpl() == storage) return true;
  }
  return false;
}

void GraphExecutable::take_outputs(Frame& frame, const State* state, std::vector<Tensor>& outputs) const {
  outputs.resize(user_outputs_.size());
  for (std::size_t index = 0; index < user_outputs_.size(); ++index) {
    const c10::IValue& value = frame.slots[user_outputs_[index].slot];
    at::Tensor tensor;
    if (value.isTensor()) {
      tensor = value.toTensor();
      if (tensor.defined() && shares_with_caller(tensor, index, frame, state)) tensor = tensor.clone();
    } else if (value.isInt()) {
      tensor = at::scalar_tensor(value.toInt(), at::kLong);
    } else if (value.isDouble()) {
      tensor = at::scalar_tensor(value.toDouble(), at::kDouble);
    } else if (value.isBool()) {
      tensor = at::scalar_tensor(value.toBool(), at::kBool);
    }
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
  bind_state(context.state, *frame);
  const AllocationReport allocations(context.observer);
  run_steps(*compiled_, *frame, limits, position);
  store_mutations(inputs, *frame);
  take_outputs(*frame, context.state, outputs);
  // What is not a shared weight must not live on in the frame: states may be large and belong to sessions.
  for (const std::uint32_t slot : compiled_->final_releases()) frame->slots[slot] = c10::IValue();
  for (const LoadedWeight& weight : weights_) {
    if (weight.written) frame->slots[weight.slot] = c10::IValue();
  }
  return_frame(std::move(frame));  // after a failure it goes with what it holds
}

Status GraphExecutable::run(RunContext& context, std::span<const Tensor> inputs, std::vector<Tensor>& outputs,
                            Event* event) {
  if (inputs.size() != user_inputs_.size()) {
    return {StatusCode::kInvalidArgument,
            fmt::format("the model takes {} inputs, {} were given", user_inputs_.size(), inputs.size())};
  }
  if (event != nullptr) *event = Event();
  auto position = static_cast<std::uint32_t>(compiled_->steps().size());
  try {
    run_frame(context, inputs, outputs, position);
    return {};
  } catch (const RunStopped& stopped) {
    return {stopped.code(),
            stopped.code() == StatusCode::kCancelled ? "the run was cancelled" : "the run passed its deadline"};
  } catch (const CallFailure& error) {
    const bool caller = error.code() == CallCode::kInvalidArgument;
    return to_failure(error, caller ? StatusCode::kInvalidArgument : StatusCode::kVendorLibrary, *compiled_, position);
  } catch (const OwnNodeFailure& error) {
    return to_failure(error, StatusCode::kKernel, *compiled_, position);
  } catch (const c10::OutOfMemoryError& error) {
    return to_failure(error, StatusCode::kOutOfMemory, *compiled_, position);
  } catch (const std::bad_alloc& error) {
    return to_failure(error, StatusCode::kOutOfMemory, *compiled_, position);
  } catch (const std::exception& error) {
    return to_failure(error, StatusCode::kVendorLibrary, *compiled_, position);
  } catch (...) {
    return to_failure(std::runtime_error("an exception of unknown type"), StatusCode::kVendorLibrary, *compiled_,
                      position);
  }
}

}  // namespace kpt::aten
