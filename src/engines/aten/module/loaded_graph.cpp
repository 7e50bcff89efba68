#include "engines/aten/module/loaded_graph.h"

#include <algorithm>
#include <map>

#include <ATen/Functions.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include "engines/aten/module/graph_state.h"
#include "engines/aten/module/guarded_call.h"
#include "engines/aten/module/tensors.h"
#include "engines/aten/module/thread_count.h"
#include "engines/aten/module/typed_failure.h"

namespace kpt::aten {
namespace {

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

void copy_named(const at::Tensor& value, const at::Tensor& target, const std::string& name) {
  if (value.sizes() != target.sizes()) {
    throw std::runtime_error(fmt::format("what the graph writes into '{}' has another shape", name));
  }
  target.copy_(value);
}

}  // namespace

Result<std::unique_ptr<LoadedGraph>> LoadedGraph::load(std::shared_ptr<const ir::Graph> graph, const Weights& weights,
                                                       at::Device device, bool plan_memory,
                                                       const NvidiaPolicy& policy) {
  take_thread_count();  // own nodes lay weights out anew
  const c10::InferenceMode inference;
  std::unique_ptr<LoadedGraph> loaded(new LoadedGraph(std::move(graph), device));
  KPT_ASSIGN_OR_RETURN(loaded->compiled_, CompiledGraph::compile(*loaded->graph_, device, plan_memory, policy));
  KPT_RETURN_IF_ERROR(loaded->load_weights(weights));
  KPT_RETURN_IF_ERROR(loaded->prepare_nodes());
  loaded->find_inputs();
  loaded->find_outputs();
  return loaded;
}

Status LoadedGraph::load_weights(const Weights& weights) {
  DeviceCopies copies(device_);
  for (const ir::GraphInput& input : graph_->inputs) {
    if (!is_weight(input)) continue;
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
    loaded.tensor = device_.is_cpu() ? to_aten(weight) : copies.view(weight);
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

Status LoadedGraph::prepare_nodes() {
  std::vector<const at::Tensor*> constants(graph_->values.size(), nullptr);
  for (const LoadedWeight& weight : weights_) {
    if (!weight.written) constants[weight.slot] = &weight.tensor;
  }
  return compiled_->prepare(constants);
}

void LoadedGraph::find_inputs() {
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
    inputs_.push_back(std::move(user));
  }
}

void LoadedGraph::find_outputs() {
  const AliasSets& aliases = compiled_->aliases();
  for (const ir::GraphOutput& output : graph_->outputs) {
    const ir::ValueId* id = output.value.value_id();
    if (output.kind != ir::OutputKind::kUser || id == nullptr) continue;
    UserOutput user;
    user.slot = ir::index_of(*id);
    const std::uint32_t root = aliases.root(user.slot);
    for (std::size_t index = 0; index < inputs_.size(); ++index) {
      if (aliases.root(inputs_[index].slot) == root) user.inputs.push_back(index);
    }
    for (std::size_t index = 0; index < weights_.size(); ++index) {
      if (aliases.root(weights_[index].slot) == root) user.weights.push_back(index);
    }
    outputs_.push_back(std::move(user));
  }
}

std::unique_ptr<Frame> LoadedGraph::make_frame() const {
  auto frame = std::make_unique<Frame>(*compiled_);
  frame->inputs.resize(inputs_.size());
  for (const LoadedWeight& weight : weights_) frame->slots[weight.slot] = weight.tensor;
  return frame;
}

bool LoadedGraph::bind_number(std::size_t input, const Tensor& given, Frame& frame) const {
  const ir::ValueKind kind = graph_->values[inputs_[input].slot].kind;
  if (kind == ir::ValueKind::kTensor) return false;
  c10::IValue& slot = frame.slots[inputs_[input].slot];
  const at::Scalar number = to_aten(given).item();
  if (kind == ir::ValueKind::kInt) slot = number.toLong();
  if (kind == ir::ValueKind::kFloat) slot = number.toDouble();
  if (kind == ir::ValueKind::kBool) slot = number.toBool();
  return true;
}

void LoadedGraph::bind_state(State* state, Frame& frame) const {
  if (!stateful_) return;
  if (state == nullptr) {
    throw CallFailure(CallCode::kInvalidArgument, "the model writes buffers, so a run needs a state");
  }
  auto& buffers = static_cast<GraphState&>(*state);
  for (const LoadedWeight& weight : weights_) {
    if (weight.written) frame.slots[weight.slot] = buffers.tensor(weight.name);
  }
}

void LoadedGraph::store_mutations(std::span<const Tensor> inputs, Frame& frame) const {
  for (const ir::GraphOutput& output : graph_->outputs) {
    if (output.kind == ir::OutputKind::kUser) continue;
    const ir::ValueId* id = output.value.value_id();
    if (id == nullptr) continue;
    const at::Tensor& value = frame.slots[ir::index_of(*id)].toTensor();
    if (output.kind == ir::OutputKind::kInputMutation) {
      for (std::size_t index = 0; index < inputs_.size(); ++index) {
        // Read-only memory stays as it is: the caller cannot expect a change there.
        if (inputs_[index].name != output.name || !inputs[index].buffer()->writable()) continue;
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
bool LoadedGraph::is_shared(const at::Tensor& tensor, const UserOutput& output, const Frame& frame,
                            const State* state) const {
  const auto* storage = tensor.storage().unsafeGetStorageImpl();
  for (const std::size_t index : output.inputs) {
    const at::Tensor& input = frame.inputs[index].tensor;
    if (input.defined() && input.storage().unsafeGetStorageImpl() == storage) return true;
  }
  for (const std::size_t index : output.weights) {
    const LoadedWeight& weight = weights_[index];
    const at::Tensor& owned =
        weight.written ? static_cast<const GraphState&>(*state).tensor(weight.name) : weight.tensor;
    if (owned.storage().unsafeGetStorageImpl() == storage) return true;
  }
  return false;
}

at::Tensor LoadedGraph::take_output(std::size_t index, const Frame& frame, const State* state, bool* owned) const {
  const c10::IValue& value = frame.slots[outputs_[index].slot];
  *owned = true;
  if (value.isTensor()) {
    const at::Tensor& tensor = value.toTensor();
    *owned = !tensor.defined() || !is_shared(tensor, outputs_[index], frame, state);
    return tensor;
  }
  if (value.isInt()) return at::scalar_tensor(value.toInt(), at::kLong);
  if (value.isDouble()) return at::scalar_tensor(value.toDouble(), at::kDouble);
  if (value.isBool()) return at::scalar_tensor(value.toBool(), at::kBool);
  return {};
}

void LoadedGraph::release(Frame& frame) const {
  for (const std::uint32_t slot : compiled_->final_releases()) frame.slots[slot] = c10::IValue();
  for (const LoadedWeight& weight : weights_) {
    if (weight.written) frame.slots[weight.slot] = c10::IValue();
  }
}

Status LoadedGraph::describe_failure(const std::exception& error, StatusCode code, std::uint32_t position) const {
  std::string text = first_line(error);
  Vendor vendor = device_.is_cpu() ? Vendor::kNone : kGpuKind.vendor;
  if (is_host_shortage(error)) {
    code = StatusCode::kOutOfMemory;
    if (!device_.is_cpu()) text = "the host's memory ran out: " + text;
    vendor = Vendor::kNone;
  }
  if (position >= compiled_->steps().size()) return {code, fmt::format("the run failed: {}", text), vendor};
  const ir::Node& node = graph_->nodes[compiled_->steps()[position].node];
  return {code, fmt::format("node '{}' ({}) failed: {}", node.name, node.target, text), vendor};
}

Status LoadedGraph::current_failure(std::uint32_t position) const {
  try {
    throw;
  } catch (const RunStopped& stopped) {
    return {stopped.code(),
            stopped.code() == StatusCode::kCancelled ? "the run was cancelled" : "the run passed its deadline"};
  } catch (const CallFailure& error) {
    const bool caller = error.code() == CallCode::kInvalidArgument;
    return describe_failure(error, caller ? StatusCode::kInvalidArgument : StatusCode::kVendorLibrary, position);
  } catch (const TypedFailure& error) {
    return describe_failure(error, error.code(), position);
  } catch (const OwnNodeFailure& error) {
    return describe_failure(error, StatusCode::kKernel, position);
  } catch (const c10::OutOfMemoryError& error) {
    return describe_failure(error, StatusCode::kOutOfMemory, position);
  } catch (const std::bad_alloc& error) {
    return describe_failure(error, StatusCode::kOutOfMemory, position);
  } catch (const std::exception& error) {
    return describe_failure(error, StatusCode::kVendorLibrary, position);
  } catch (...) {
    return describe_failure(std::runtime_error("an exception of unknown type"), StatusCode::kVendorLibrary, position);
  }
}

}  // namespace kpt::aten
