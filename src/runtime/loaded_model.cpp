#include "runtime/loaded_model.h"

#include <algorithm>
#include <system_error>

#include <fmt/format.h>

#include "base/log.h"
#include "base/reword.h"
#include "base/text.h"
#include "device/unsupported_nodes.h"

namespace kpt::detail {
namespace {

TensorSpec make_spec(const ir::Value& value, const std::string& name) {
  TensorSpec spec;
  spec.name = name;
  switch (value.kind) {
    case ir::ValueKind::kTensor: break;
    case ir::ValueKind::kInt: spec.dtype = DType::kInt64; return spec;
    case ir::ValueKind::kFloat: spec.dtype = DType::kFloat64; return spec;
    case ir::ValueKind::kBool: spec.dtype = DType::kBool; return spec;
  }
  spec.dtype = value.tensor.dtype;
  for (const ir::Expr& dim : value.tensor.dims) spec.dims.push_back(dim.to_string());
  return spec;
}

// Failures of a model that was read from a file begin with its name.
Status in_file(const std::string& file, const Status& status) {
  if (status.ok() || file.empty()) return status;
  return reword(status, status.code(), file + ": " + status.message());
}

// The number in a tensor of rank 0; nothing for others.
std::optional<double> read_number(const Tensor& tensor) {
  if (!tensor.defined() || !tensor.dims().empty() || tensor.data() == nullptr) return std::nullopt;
  switch (tensor.dtype()) {
    case DType::kInt64: return static_cast<double>(tensor.elements<std::int64_t>()[0]);
    case DType::kFloat64: return tensor.elements<double>()[0];
    case DType::kBool: return tensor.elements<std::uint8_t>()[0];
    default: return std::nullopt;
  }
}

// An argument that export fixed may be left out; given, it must be the value that the graph was made for.
Status check_fixed(const ir::GraphInput& input, const Tensor& given) {
  std::optional<double> wanted;
  if (const auto* number = std::get_if<std::int64_t>(&input.fixed.value)) wanted = static_cast<double>(*number);
  if (const auto* number = std::get_if<double>(&input.fixed.value)) wanted = *number;
  if (const auto* truth = std::get_if<bool>(&input.fixed.value)) wanted = *truth ? 1 : 0;
  if (wanted && read_number(given) == wanted) return {};
  return {StatusCode::kInvalidArgument,
          wanted ? fmt::format("input '{}' was fixed to {} when the model was exported", input.name, *wanted)
                 : fmt::format("input '{}' was fixed when the model was exported and cannot be given", input.name)};
}

// The stored program where it is of this version, else one made of the graph.
Result<std::unique_ptr<Program>> make_program(const Target& target, ir::Graph graph, std::string_view stored) {
  if (stored.empty()) return target.compile(std::move(graph));
  auto program = target.deserialize(stored);
  if (program.status().code() == StatusCode::kVersionMismatch) {
    log::info("a stored program is not used and the model is compiled here", {{"reason", program.status().message()}});
    return target.compile(std::move(graph));
  }
  if (program.ok() && (*program)->graph() != graph) {
    return Status(StatusCode::kCorruptData, "the stored program is of another graph than the one beside it");
  }
  return program;
}

// A target answers without the file that tells the lines: sub-graphs that it refuses are asked about by themselves.
Result<std::vector<Support>> find_graph_support(const ir::Graph& graph, const Target& target,
                                                const FindSource& find_source) {
  KPT_ASSIGN_OR_RETURN(std::vector<Support> answers, target.supports(graph));
  for (std::size_t index = 0; index < answers.size(); ++index) {
    if (answers[index].supported || !answers[index].reason.starts_with(kInsideIt)) continue;
    std::string reason;
    for (const ir::NamedArgument& argument : graph.nodes[index].arguments) {
      const auto* body = std::get_if<ir::Subgraph>(&argument.value.value);
      if (body == nullptr || body->graph == nullptr) continue;
      KPT_ASSIGN_OR_RETURN(const auto inside, find_graph_support(*body->graph, target, find_source));
      const Status status = list_unsupported(*body->graph, inside, "cannot run", find_source);
      if (!status.ok()) reason += (reason.empty() ? std::string(kInsideIt) : ", and ") + status.message();
    }
    if (!reason.empty()) answers[index].reason = reason;
  }
  return answers;
}

FindSource find_source_in(const ImportedModel& model) {
  return [&model](const ir::Node& node) { return find_source_line(model, node); };
}

}  // namespace

Result<std::vector<Support>> find_support(const ImportedModel& model, const Target& target) {
  return find_graph_support(model.graph, target, find_source_in(model));
}

Status check_support(const ImportedModel& model, const Target& target) {
  KPT_ASSIGN_OR_RETURN(const auto answers, find_support(model, target));
  Status status =
      list_unsupported(model.graph, answers, fmt::format("cannot run on {}", target.name()), find_source_in(model));
  if (status.ok()) return status;
  const std::string advice = target.place(model.graph).advice;
  if (!advice.empty()) status = reword(status, status.code(), status.message() + "; " + advice);
  return in_file(model.file, status);
}

Result<std::shared_ptr<const LoadedModel>> LoadedModel::load(ImportedModel imported, Backend& backend, Device& device,
                                                             std::shared_ptr<void> keep_alive,
                                                             const BatchPolicy& batches,
                                                             std::string_view stored_program) {
  std::shared_ptr<LoadedModel> loaded(new LoadedModel());
  loaded->keep_alive_ = std::move(keep_alive);
  const Target& target = device.target();
  KPT_RETURN_IF_ERROR(check_support(imported, target));
  auto program = make_program(target, std::move(imported.graph), stored_program);
  if (!program.ok()) return in_file(imported.file, program.status());
  loaded->program_ = std::move(program).value();
  Device* const devices[] = {&device};
  loaded->weight_numbers_ = read_weight_numbers(imported.weights);
  auto executable = backend.load(loaded->program_, imported.weights, devices);
  if (!executable.ok()) return in_file(imported.file, executable.status());
  loaded->executable_ = std::move(executable).value();
  loaded->notes_ = std::move(imported.notes);
  loaded->input_check_ = std::make_unique<InputCheck>(loaded->graph());
  loaded->describe();
  loaded->queues_runs_ = target.capabilities().streams && loaded->program_->placement() == nullptr;
  loaded->runs_.emplace(*loaded->executable_, device, loaded->graph(), loaded->weight_numbers_, batches);
  return std::shared_ptr<const LoadedModel>(std::move(loaded));
}

void LoadedModel::describe() {
  for (const ir::GraphInput& input : graph().inputs) {
    if (input.kind == ir::InputKind::kUser) inputs_.push_back(make_spec(graph().at(input.value), input.name));
  }
  for (const ir::GraphOutput& output : graph().outputs) {
    const ir::ValueId* id = output.value.value_id();
    if (output.kind == ir::OutputKind::kUser && id != nullptr) {
      outputs_.push_back(make_spec(graph().at(*id), output.name));
    }
  }
}

Result<std::vector<Tensor>> LoadedModel::order_inputs(std::span<const NamedTensor> inputs) const {
  const std::vector<std::string>& names = input_check_->names();
  std::vector<Tensor> ordered(names.size());
  for (const NamedTensor& input : inputs) {
    const auto found = std::ranges::find(names, input.name);
    const auto fixed = std::ranges::find_if(graph().inputs, [&](const ir::GraphInput& other) {
      return other.kind == ir::InputKind::kFixed && other.name == input.name;
    });
    if (fixed != graph().inputs.end()) {
      KPT_RETURN_IF_ERROR(check_fixed(*fixed, input.tensor));
      continue;
    }
    if (found == names.end()) {
      const auto nearest = find_nearest(input.name, names);
      return Status(StatusCode::kInvalidArgument,
                    fmt::format("the model takes no input '{}'; {}", input.name,
                                nearest ? fmt::format("did you mean '{}'?", *nearest)
                                        : fmt::format("its inputs are {}", join(names, ", "))));
    }
    Tensor& place = ordered[static_cast<std::size_t>(found - names.begin())];
    if (place.defined()) {
      return Status(StatusCode::kInvalidArgument, fmt::format("input '{}' is given twice", input.name));
    }
    place = input.tensor;
  }
  return ordered;
}

Status LoadedModel::run(RunContext& context, std::span<const Tensor> inputs, std::vector<Tensor>& outputs,
                        RunReport* report, Event* event) const {
  return runs_->run(context, inputs, outputs, report, event);
}

Status LoadedModel::prepare_queue() const {
  if (queues_runs_) return {};
  const std::lock_guard lock(worker_mutex_);
  if (worker_ != nullptr) return {};
  try {
    worker_ = std::make_unique<ThreadPool>(1);
  } catch (const std::system_error& error) {
    return {StatusCode::kOutOfMemory,
            fmt::format("no thread can be had for a run beside its caller: {}", error.what())};
  }
  return {};
}

void LoadedModel::queue(const std::shared_ptr<PendingRun>& run) const {
  if (queues_runs_) return run->execute();
  static_cast<void>(worker_->submit([run] { run->execute(); }));
}

Result<Session> start_session(std::shared_ptr<const LoadedModel> model) {
  auto state = std::make_shared<SessionState>();
  if (model->executable().is_stateful()) {
    KPT_ASSIGN_OR_RETURN(state->buffers, model->executable().make_state());
  }
  state->model = std::move(model);
  return Session(std::move(state));
}

void finish_flight(SessionState& session) {
  if (session.in_flight == nullptr) return;
  static_cast<void>(session.in_flight->wait());  // its handle tells how it ended
  session.in_flight.reset();
}

Status run_session(SessionState& session, std::span<const Tensor> inputs, std::vector<Tensor>& outputs,
                   const RunOptions& options) {
  KPT_RETURN_IF_ERROR(session.model->input_check().check(inputs));
  RunContext context;
  context.deadline = options.deadline;
  context.cancelled = options.cancelled;
  context.outputs_on_device = options.outputs_on_device;
  if (session.buffers == nullptr) return session.model->run(context, inputs, outputs, options.report);
  const std::lock_guard lock(session.mutex);
  finish_flight(session);
  context.state = session.buffers.get();
  return session.model->run(context, inputs, outputs, options.report);
}

}  // namespace kpt::detail
