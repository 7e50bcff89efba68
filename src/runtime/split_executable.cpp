#include "runtime/split_executable.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "base/strided_copy.h"
#include "device/graph_arguments.h"
#include "device/run_limits.h"

namespace kpt {
namespace {

// Of a model that writes nothing.
class NoState final : public State {
 public:
  Status reset() override { return {}; }
  std::vector<std::string> names() const override { return {}; }
  Result<Tensor> read(std::string_view name) const override { return refuse(name); }
  Status write(std::string_view name, const Tensor& /*value*/) override { return refuse(name); }

 private:
  static Status refuse(std::string_view name) {
    return {StatusCode::kNotFound, fmt::format("the model writes no buffer '{}'", name)};
  }
};

// Nodes of a part by their positions in the whole graph.
class PartObserver final : public NodeObserver {
 public:
  PartObserver(NodeObserver& whole, const std::vector<std::size_t>& nodes) : whole_(whole), nodes_(nodes) {}
  void begin_node(std::size_t node) override {
    if (node < nodes_.size()) whole_.begin_node(nodes_[node]);
  }
  void end_node(std::size_t node) override {
    if (node < nodes_.size()) whole_.end_node(nodes_[node]);
  }
  bool wants_allocations() const override { return whole_.wants_allocations(); }
  void tensor_allocated(std::size_t bytes) override { whole_.tensor_allocated(bytes); }

 private:
  NodeObserver& whole_;
  const std::vector<std::size_t>& nodes_;
};

Result<Tensor> bring_to_host(const Tensor& tensor, Device& device) {
  if (!tensor.defined() || tensor.device() == "cpu") return tensor;
  return device.download(tensor);
}

// The axes from the one with the largest recorded stride to the one with the least; row-major where nobody knows.
std::vector<std::size_t> order_axes(const ir::TensorType& type, const ir::Bindings& sizes) {
  std::vector<std::size_t> axes(type.dims.size());
  std::iota(axes.begin(), axes.end(), std::size_t{0});
  std::vector<std::int64_t> strides;
  for (const ir::Expr& stride : type.strides) {
    const auto known = stride.evaluate(sizes);
    if (!known.ok()) return axes;
    strides.push_back(*known);
  }
  if (strides.size() != axes.size()) return axes;
  std::ranges::stable_sort(axes, [&strides](std::size_t a, std::size_t b) { return strides[a] > strides[b]; });
  return axes;
}

// The same elements without gaps, the last of `axes` moving fastest.
Result<Tensor> lay_out(const Tensor& tensor, const std::vector<std::size_t>& axes) {
  Dims dims;
  Dims strides;
  for (const std::size_t axis : axes) {
    dims.push_back(tensor.dims()[axis]);
    strides.push_back(tensor.strides()[axis]);
  }
  KPT_ASSIGN_OR_RETURN(const Tensor dense, Tensor::empty(tensor.dtype(), dims));
  if (dense.element_count() > 0) {
    copy_strided(static_cast<std::byte*>(dense.data()), static_cast<const std::byte*>(tensor.data()), dims, strides,
                 element_bytes(tensor.dtype()));
  }
  Dims turned = tensor.dims();  // its values are replaced
  for (std::size_t place = 0; place < axes.size(); ++place) turned[axes[place]] = dense.strides()[place];
  return Tensor::from_buffer(dense.buffer(), tensor.dtype(), tensor.dims(), turned, dense.offset());
}

Result<Tensor> make_size(std::int64_t number) {
  KPT_ASSIGN_OR_RETURN(Tensor tensor, Tensor::empty(DType::kInt64, Dims{}));
  tensor.elements<std::int64_t>()[0] = number;
  return tensor;
}

}  // namespace

Result<std::unique_ptr<Program>> SplitProgram::make(ir::Graph graph, SplitGraph split, const Target& device,
                                                    const Target& host) {
  std::unique_ptr<SplitProgram> program(
      new SplitProgram(std::string(device.name()), std::move(graph), std::move(split)));
  for (SplitPart& part : program->split_.parts) {
    const Target& target = part.side == Side::kHost ? host : device;
    KPT_ASSIGN_OR_RETURN(std::unique_ptr<Program> compiled, target.compile(std::move(part.graph)));
    part.graph = {};
    program->programs_.push_back(std::move(compiled));
  }
  return std::unique_ptr<Program>(std::move(program));
}

Result<std::string> SplitProgram::serialize() const {
  return Status(StatusCode::kUnsupported,
                fmt::format("a program that is split between {} and the CPU is not stored", target_));
}

SplitExecutable::SplitExecutable(std::shared_ptr<const SplitProgram> program, DevicePlace device, DevicePlace host)
    : program_(std::move(program)),
      device_(std::move(device)),
      host_(std::move(host)),
      name_(fmt::format("{}+{}", device_.device->info().name, host_.device->info().name)) {
  for (const ir::GraphInput& input : program_->graph().inputs) {
    if (input.kind == ir::InputKind::kUser) ++user_inputs_;
  }
}

Result<std::unique_ptr<Executable>> SplitExecutable::load(std::shared_ptr<const SplitProgram> program,
                                                          const Weights& weights, DevicePlace device,
                                                          DevicePlace host) {
  std::unique_ptr<SplitExecutable> split(new SplitExecutable(std::move(program), std::move(device), std::move(host)));
  for (std::size_t index = 0; index < split->split().parts.size(); ++index) {
    const DevicePlace& place = split->split().parts[index].side == Side::kHost ? split->host_ : split->device_;
    Device* const devices[] = {place.device};
    KPT_ASSIGN_OR_RETURN(auto part, place.backend->load(split->program_->programs()[index], weights, devices));
    if (part->is_stateful()) {
      return Status(StatusCode::kModelPreparation,
                    fmt::format("part {} of the split model writes buffers on {}, and one that keeps or changes memory "
                                "is not split",
                                index, part->device()));
    }
    split->parts_.push_back(std::move(part));
  }
  for (const SplitOutput& output : split->split().outputs) {
    if (output.slot != kNoSlot) continue;
    const auto found = weights.find(output.weight);
    if (found == weights.end()) {
      return Status(StatusCode::kInvalidArgument, fmt::format("weight '{}' is missing", output.weight));
    }
    split->returned_.emplace(output.weight, found->second);
  }
  return std::unique_ptr<Executable>(std::move(split));
}

Result<std::unique_ptr<State>> SplitExecutable::make_state() const {
  return std::unique_ptr<State>(std::make_unique<NoState>());
}

std::vector<NodePlan> SplitExecutable::plan() const {
  std::vector<NodePlan> plans;
  for (const auto& part : parts_) {
    std::vector<NodePlan> own = part->plan();
    std::move(own.begin(), own.end(), std::back_inserter(plans));
  }
  return plans;
}

std::int64_t SplitExecutable::row_multiple() const {
  std::int64_t multiple = 1;
  for (const auto& part : parts_) multiple = std::lcm(multiple, part->row_multiple());
  return multiple;
}

std::string SplitExecutable::describe_runs() const {
  std::string text;
  for (std::size_t index = 0; index < parts_.size(); ++index) {
    const std::string own = parts_[index]->describe_runs();
    if (!own.empty()) text += fmt::format("{}part {}: {}", text.empty() ? "" : "; ", index + 1, own);
  }
  return text;
}

Status SplitExecutable::fill_slots(std::span<const Tensor> inputs, ir::Bindings& sizes,
                                   std::vector<Tensor>& slots) const {
  if (inputs.size() != user_inputs_) {
    return {StatusCode::kInvalidArgument,
            fmt::format("the model takes {} inputs, {} were given", user_inputs_, inputs.size())};
  }
  KPT_RETURN_IF_ERROR(bind_symbols(program_->graph(), inputs, sizes));
  for (std::size_t index = 0; index < slots.size(); ++index) {
    const SplitSlot& slot = split().slots[index];
    if (slot.user != kNoSlot) {
      slots[index] = inputs[slot.user];
      if (!slot.read_on_host && slot.last_reader != kNoSlot) continue;
      KPT_ASSIGN_OR_RETURN(slots[index], bring_to_host(slots[index], *device_.device));
    } else if (slot.is_size) {
      KPT_ASSIGN_OR_RETURN(const std::int64_t number, slot.size.evaluate(sizes));
      KPT_ASSIGN_OR_RETURN(slots[index], make_size(number));
    }
  }
  return {};
}

Result<Tensor> SplitExecutable::receive(const Tensor& output, const SplitSlot& slot, const ir::Bindings& sizes) const {
  KPT_ASSIGN_OR_RETURN(Tensor host, bring_to_host(output, *device_.device));
  const ir::Value& value = program_->graph().at(slot.value);
  const bool plain = value.kind != ir::ValueKind::kTensor || value.tensor.dims.size() != host.dims().size();
  if (plain) return host;
  // Operators of later parts may rely on how their operands lie: a view that PyTorch could make must stay possible.
  const std::vector<std::size_t> axes = order_axes(value.tensor, sizes);
  if (host.is_contiguous() && std::ranges::is_sorted(axes)) return host;
  return lay_out(host, axes);
}

Status SplitExecutable::run_part(std::size_t index, RunContext& context, const ir::Bindings& sizes,
                                 std::vector<Tensor>& slots) const {
  const SplitPart& part = split().parts[index];
  std::vector<Tensor> inputs;
  inputs.reserve(part.inputs.size());
  for (const std::size_t slot : part.inputs) inputs.push_back(slots[slot]);
  RunContext own = context;
  own.state = nullptr;
  own.observer = nullptr;
  own.outputs_on_device = false;
  std::optional<PartObserver> observer;
  if (context.observer != nullptr) own.observer = &observer.emplace(*context.observer, part.nodes);
  std::vector<Tensor> outputs;
  KPT_RETURN_IF_ERROR(parts_[index]->run(own, inputs, outputs));
  if (outputs.size() != part.outputs.size()) {
    return {StatusCode::kInternal, fmt::format("part {} on {} gave {} results, {} were expected", index,
                                               parts_[index]->device(), outputs.size(), part.outputs.size())};
  }
  for (std::size_t place = 0; place < outputs.size(); ++place) {
    Tensor& kept = slots[part.outputs[place]];
    if (part.side == Side::kHost) {
      kept = std::move(outputs[place]);
    } else {
      KPT_ASSIGN_OR_RETURN(kept, receive(outputs[place], split().slots[part.outputs[place]], sizes));
    }
  }
  for (std::size_t slot = 0; slot < slots.size(); ++slot) {
    if (split().slots[slot].last_reader == index) slots[slot] = Tensor();
  }
  return {};
}

Status SplitExecutable::give_outputs(const std::vector<Tensor>& slots, std::vector<Tensor>& outputs) const {
  outputs.resize(split().outputs.size());
  for (std::size_t index = 0; index < outputs.size(); ++index) {
    const SplitOutput& output = split().outputs[index];
    if (output.slot == kNoSlot) {
      KPT_ASSIGN_OR_RETURN(outputs[index], returned_.find(output.weight)->second.contiguous_copy());
    } else if (split().slots[output.slot].user != kNoSlot) {
      KPT_ASSIGN_OR_RETURN(outputs[index], slots[output.slot].contiguous_copy());
    } else {
      outputs[index] = slots[output.slot];
    }
  }
  return {};
}

Status SplitExecutable::run(RunContext& context, std::span<const Tensor> inputs, std::vector<Tensor>& outputs,
                            Event* event) {
  std::vector<Tensor> slots(split().slots.size());
  ir::Bindings sizes;
  KPT_RETURN_IF_ERROR(fill_slots(inputs, sizes, slots));
  for (std::size_t index = 0; index < parts_.size(); ++index) {
    KPT_RETURN_IF_ERROR(check_limits(context));
    KPT_RETURN_IF_ERROR(run_part(index, context, sizes, slots));
  }
  KPT_RETURN_IF_ERROR(give_outputs(slots, outputs));
  if (event != nullptr) *event = Event();  // a run is over when it returns
  return {};
}

}  // namespace kpt
