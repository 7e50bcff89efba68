#include "runtime/batched_runs.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "device/copies.h"
#include "memory/available_memory.h"
#include "memory/shape_buckets.h"
#include "runtime/row_parts.h"

namespace kpt::detail {
namespace {

std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

std::vector<std::size_t> find_axes(const ir::Value& value, const std::string& symbol) {
  std::vector<std::size_t> axes;
  for (std::size_t axis = 0; axis < value.tensor.dims.size(); ++axis) {
    if (value.tensor.dims[axis] == ir::Expr::symbol(symbol)) axes.push_back(axis);
  }
  return axes;
}

bool are_on_host(std::span<const Tensor> tensors) {
  return std::ranges::all_of(tensors, [](const Tensor& tensor) { return tensor.device() == "cpu"; });
}

// Queued work, and what the host has to do when it is done.
class CutWhenDone final : public Event::Impl {
 public:
  CutWhenDone(Event queued, std::function<Status()> cut) : queued_(std::move(queued)), cut_(std::move(cut)) {}
  Status wait() override {
    std::call_once(once_, [this] {
      status_ = queued_.wait();
      if (status_.ok()) status_ = cut_();
    });
    return status_;
  }
  bool done() const override { return queued_.done(); }

 private:
  Event queued_;
  std::function<Status()> cut_;
  std::once_flag once_;
  Status status_;
};

// Cuts now, or behind the event of the run.
Status cut_when_done(Event* event, std::function<Status()> cut) {
  if (event == nullptr) return cut();
  *event = Event(std::make_shared<CutWhenDone>(std::move(*event), std::move(cut)));
  return {};
}

}  // namespace

BatchedRuns::BatchedRuns(Executable& executable, Device& device, const ir::Graph& graph, const WeightNumbers& numbers,
                         const BatchPolicy& policy)
    : executable_(executable), device_(device), policy_(policy) {
  policy_.buckets = policy.buckets && device.target().capabilities().sizes_cost;
  policy_.sequences = policy.sequences && device.target().capabilities().sizes_cost;
  if (executable.is_stateful()) return;
  if (policy_.sequences) find_sequence(graph, numbers);
  if (!policy_.split && !policy_.buckets) return;
  outputs_ = static_cast<std::size_t>(std::ranges::count_if(graph.outputs, [](const ir::GraphOutput& output) {
    return output.kind == ir::OutputKind::kUser && output.value.value_id() != nullptr;
  }));
  auto batch = find_batch_rows(graph);
  if (!batch.ok()) return;
  batch_ = std::move(batch).value();
  multiple_ = executable.row_multiple();
  batch_->least = round_up(batch_->least, multiple_);
}

void BatchedRuns::find_sequence(const ir::Graph& graph, const WeightNumbers& numbers) {
  auto sequence = find_sequence_rows(graph, numbers);
  if (!sequence.ok()) return;
  sequence_ = std::move(sequence).value();
  for (const ir::GraphInput& input : graph.inputs) {
    if (input.kind != ir::InputKind::kUser) continue;
    input_axes_.push_back(find_axes(graph.at(input.value), sequence_->symbol));
  }
  for (const ir::GraphOutput& output : graph.outputs) {
    const ir::ValueId* id = output.value.value_id();
    if (id != nullptr) output_axes_.push_back(find_axes(graph.at(*id), sequence_->symbol));
  }
}

Status BatchedRuns::run(RunContext& context, std::span<const Tensor> inputs, std::vector<Tensor>& outputs,
                        RunReport* report, Event* event) const {
  if (report != nullptr) *report = {};
  if (const auto lengths = choose_lengths(context, inputs)) {
    const Status status = run_longer(context, inputs, *lengths, outputs, report, event);
    if (status.ok() && report != nullptr) report->padded_positions = lengths->wanted - lengths->own;
    if (!is_shortage(status.code())) return status;
    if (report != nullptr) *report = {};
  }
  return run_batch(context, inputs, outputs, report, policy_.split, event);
}

std::optional<BatchedRuns::Lengths> BatchedRuns::choose_lengths(const RunContext& context,
                                                                std::span<const Tensor> inputs) const {
  if (!sequence_ || context.outputs_on_device || !are_on_host(inputs)) return std::nullopt;
  const auto first = std::ranges::find_if(input_axes_, [](const auto& axes) { return !axes.empty(); });
  const Tensor& input = inputs[static_cast<std::size_t>(first - input_axes_.begin())];
  const std::int64_t own = input.dims()[first->front()];
  const std::int64_t wanted = find_bucket(own, sequence_->most);
  return wanted > own ? std::optional(Lengths{own, wanted}) : std::nullopt;
}

Status BatchedRuns::run_longer(RunContext& context, std::span<const Tensor> inputs, const Lengths& lengths,
                               std::vector<Tensor>& outputs, RunReport* report, Event* event) const {
  std::vector<Tensor> padded;
  for (std::size_t index = 0; index < inputs.size(); ++index) {
    Tensor longer = inputs[index];
    const bool floating = is_floating(longer.dtype()) || is_complex(longer.dtype());
    const Padding padding = sequence_->masked && !floating ? Padding::kZero : Padding::kLast;
    for (const std::size_t axis : input_axes_[index]) {
      KPT_ASSIGN_OR_RETURN(longer, pad_axis(longer, axis, lengths.wanted, padding));
    }
    padded.push_back(std::move(longer));
  }
  KPT_RETURN_IF_ERROR(run_batch(context, padded, outputs, report, false, event));
  // A queued run may still read what it was given.
  return cut_when_done(
      event, [this, own = lengths.own, given = std::move(padded), &outputs] { return cut_positions(own, outputs); });
}

Status BatchedRuns::cut_positions(std::int64_t length, std::vector<Tensor>& outputs) const {
  for (std::size_t index = 0; index < outputs.size(); ++index) {
    if (!output_axes_[index].empty() && outputs[index].data() == nullptr) {
      KPT_ASSIGN_OR_RETURN(outputs[index], device_.download(outputs[index]));
    }
    for (const std::size_t axis : output_axes_[index]) {
      KPT_ASSIGN_OR_RETURN(outputs[index], cut_axis(outputs[index], axis, length));
    }
  }
  return {};
}

Status BatchedRuns::run_batch(RunContext& context, std::span<const Tensor> inputs, std::vector<Tensor>& outputs,
                              RunReport* report, bool may_split, Event* event) const {
  if (!batch_) return executable_.run(context, inputs, outputs, event);
  const std::int64_t rows = inputs[0].dims()[0];
  if (const std::int64_t wanted = choose_rows(context, inputs); wanted > rows) {
    const Status status = run_padded(context, inputs, wanted, outputs, event);
    if (status.ok() && report != nullptr) report->padded_rows = wanted - rows;
    if (!is_shortage(status.code())) return status;
  }
  Status status = executable_.run(context, inputs, outputs, event);
  if (!is_shortage(status.code()) || !may_split || rows % multiple_ != 0) return status;
  if (next_rows(rows, half(rows), batch_->least) >= rows) return status;
  return run_parts(context, inputs, outputs, report);
}

std::int64_t BatchedRuns::choose_rows(const RunContext& context, std::span<const Tensor> inputs) const {
  const std::int64_t rows = inputs[0].dims()[0];
  if (!policy_.buckets) return rows;
  // Rows of what lies in a device's memory are neither added nor, without addresses, left out here.
  const bool can_cut = !context.outputs_on_device || device_.target().capabilities().raw_pointers;
  if (!are_on_host(inputs) || !can_cut) return rows;
  const std::int64_t wanted = round_up(find_bucket(rows, batch_->most), multiple_);
  return wanted <= batch_->most ? wanted : rows;
}

std::int64_t BatchedRuns::half(std::int64_t rows) const { return round_up((rows + 1) / 2, multiple_); }

Status BatchedRuns::run_padded(RunContext& context, std::span<const Tensor> inputs, std::int64_t rows,
                               std::vector<Tensor>& outputs, Event* event) const {
  std::vector<Tensor> padded;
  for (const Tensor& input : inputs) {
    KPT_ASSIGN_OR_RETURN(Tensor wide, pad_rows(input, rows));
    padded.push_back(std::move(wide));
  }
  KPT_RETURN_IF_ERROR(executable_.run(context, padded, outputs, event));
  return cut_when_done(
      event, [this, own = inputs[0].dims()[0], given = std::move(padded), &outputs] { return cut_rows(own, outputs); });
}

Status BatchedRuns::cut_rows(std::int64_t rows, std::vector<Tensor>& outputs) const {
  for (Tensor& output : outputs) {
    if (output.data() == nullptr) {
      KPT_ASSIGN_OR_RETURN(output, device_.download(output));
    }
    output = take_rows(output, 0, rows);
  }
  return {};
}

// Parts are halved until one fits; what is done stays done.
Status BatchedRuns::run_parts(RunContext& context, std::span<const Tensor> inputs, std::vector<Tensor>& outputs,
                              RunReport* report) const {
  // So that the whole batch does not lie in the device's memory beside its parts.
  KPT_ASSIGN_OR_RETURN(const std::vector<Tensor> on_host, download_all(device_, inputs));
  RunContext part_context = context;
  part_context.outputs_on_device = false;
  const std::int64_t rows = inputs[0].dims()[0];
  std::int64_t wanted = half(rows);
  std::int64_t most = 0;
  std::vector<std::vector<Tensor>> parts(outputs_);
  std::int64_t done = 0;
  std::int64_t count = 0;
  while (done < rows) {
    const std::int64_t next = next_rows(rows - done, wanted, batch_->least);
    std::vector<Tensor> part;
    for (const Tensor& input : on_host) part.push_back(take_rows(input, done, next));
    const Status status = run_part(part_context, part, parts);
    if (is_shortage(status.code()) && next > batch_->least && next > 1) {
      const std::int64_t smaller = std::max(half(next), batch_->least);
      if (next_rows(rows - done, smaller, batch_->least) < next) {
        wanted = smaller;
        continue;
      }
    }
    KPT_RETURN_IF_ERROR(status);
    done += next;
    most = std::max(most, next);
    ++count;
  }
  outputs.resize(parts.size());
  for (std::size_t index = 0; index < parts.size(); ++index) {
    KPT_ASSIGN_OR_RETURN(outputs[index], join_rows(parts[index]));
  }
  if (context.outputs_on_device) {
    KPT_ASSIGN_OR_RETURN(outputs, upload_all(device_, outputs));
  }
  if (report != nullptr) *report = {count, most, 0, 0};
  return {};
}

Status BatchedRuns::run_part(RunContext& context, std::span<const Tensor> inputs,
                             std::vector<std::vector<Tensor>>& parts) const {
  std::vector<Tensor> outputs;
  KPT_RETURN_IF_ERROR(executable_.run(context, inputs, outputs));
  KPT_ASSIGN_OR_RETURN(std::vector<Tensor> on_host, download_all(device_, outputs));
  for (Tensor& host : on_host) {
    KPT_ASSIGN_OR_RETURN(host, host.contiguous_copy());
  }
  for (std::size_t index = 0; index < on_host.size(); ++index) parts[index].push_back(std::move(on_host[index]));
  return {};
}

}  // namespace kpt::detail
