#include "engines/xla/execution/xla_executable.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "base/own_memory.h"
#include "device/graph_arguments.h"
#include "device/run_limits.h"
#include "engines/xla/pjrt/plugin_calls.h"
#include "passes/memory_facts.h"

namespace kpt {
namespace {

// Sizes to try, for a look at what a graph with symbols writes.
ir::Bindings trial_sizes(const ir::Graph& graph, std::int64_t wish) {
  ir::Bindings sizes;
  for (const ir::SymbolRange& symbol : graph.symbols) {
    const std::int64_t least = std::max<std::int64_t>(symbol.min.value_or(2), 1);
    sizes.set(symbol.name, std::min(std::max(wish, least), std::max(least, symbol.max.value_or(wish))));
  }
  return sizes;
}

// Inputs that the graph writes: from a lowered form where some sizes allow one, else from the operators' names.
std::vector<std::uint32_t> list_written(const XlaProgram& program, const Weights& weights) {
  const ir::Graph& graph = program.graph();
  std::optional<xla::LoweredModule> trial;
  for (const std::int64_t wish : {2, 8, 64}) {
    if (program.module() || trial) break;
    if (auto lowered = xla::lower(graph, trial_sizes(graph, wish)); lowered.ok()) trial = std::move(*lowered);
  }
  std::vector<std::uint32_t> written;
  if (const auto& module = program.module() ? program.module() : trial) {
    for (std::size_t i = module->output_count; i < module->results.size(); ++i) {
      written.push_back(module->results[i].index);
    }
    return written;
  }
  const MemoryFacts facts(graph, weights);
  for (std::uint32_t i = 0; i < graph.inputs.size(); ++i) {
    const ir::GraphInput& input = graph.inputs[i];
    const bool replaced = std::ranges::any_of(graph.outputs, [&](const ir::GraphOutput& output) {
      return output.kind != ir::OutputKind::kUser && output.name == input.name;
    });
    if (input.value != ir::kNoValue && (replaced || facts.is_written(input.value))) written.push_back(i);
  }
  return written;
}

using GiveWeight = std::function<Result<DeviceParts>(const Tensor& host, Cut cut)>;

// Tied weights are one buffer on the device too.
Result<std::vector<DeviceParts>> upload_weights(const ir::Graph& graph, const Weights& weights, const ShardPlan& shards,
                                                const GiveWeight& give) {
  struct Known {
    Tensor host;
    Cut cut;
    DeviceParts parts;
  };
  std::vector<Known> known;
  std::vector<DeviceParts> uploaded(graph.inputs.size());
  for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
    const ir::GraphInput& input = graph.inputs[i];
    if (!is_weight(input)) continue;
    const auto found = weights.find(input.name);
    if (found == weights.end()) {
      return Status(StatusCode::kInvalidArgument, fmt::format("weight '{}' is missing", input.name));
    }
    const Tensor& host = found->second;
    KPT_RETURN_IF_ERROR(check_weight(graph.at(input.value), input, host));
    const Cut cut = shards.weight(i);
    const auto same = std::ranges::find_if(known, [&host, &cut](const Known& other) {
      return other.cut == cut && other.host.buffer() == host.buffer() && other.host.offset() == host.offset() &&
             other.host.dtype() == host.dtype() && other.host.dims() == host.dims() &&
             other.host.strides() == host.strides();
    });
    if (same != known.end()) {
      uploaded[i] = same->parts;
      continue;
    }
    KPT_ASSIGN_OR_RETURN(uploaded[i], give(host, cut));
    known.push_back({host, cut, uploaded[i]});
  }
  return uploaded;
}

}  // namespace

XlaExecutable::XlaExecutable(std::shared_ptr<const XlaProgram> program, std::shared_ptr<const pjrt::Client> client,
                             const XlaLoadOptions& options)
    : call_limit_(options.call_limit),
      limits_runs_(options.limits_runs),
      shards_(options.shards),
      model_(std::make_shared<XlaModel>()),
      threads_(std::make_shared<CallThreads>()) {
  model_->program = std::move(program);
  model_->client = std::move(client);
  model_->device = options.device;
  model_->devices = {options.first_device, shards_.devices()};
  model_->user_position.resize(graph().inputs.size());
  model_->weights.resize(graph().inputs.size());
  model_->is_written.resize(graph().inputs.size(), false);
  std::size_t position = 0;
  for (std::size_t i = 0; i < graph().inputs.size(); ++i) {
    if (graph().inputs[i].kind == ir::InputKind::kUser) model_->user_position[i] = position++;
  }
  const auto dispose = [threads = threads_, limit = call_limit_, plugin = model_->client->plugin().name()](
                           std::shared_ptr<const void> things) { threads->let_go(std::move(things), limit, plugin); };
  programs_ = std::make_shared<ShapePrograms>(kMostShapes, dispose);
}

XlaExecutable::~XlaExecutable() {
  struct Held {
    std::shared_ptr<XlaModel> model;
    std::shared_ptr<ShapePrograms> programs;
    std::shared_ptr<const ProgramMaker> maker;
  };
  const std::string plugin = client().plugin().name();
  threads_->let_go(Held{std::move(model_), std::move(programs_), std::move(maker_)}, call_limit_, plugin);
}

Result<std::unique_ptr<Executable>> XlaExecutable::load(std::shared_ptr<const XlaProgram> program,
                                                        const Weights& weights,
                                                        std::shared_ptr<const ModuleCompiler> compiler,
                                                        XlaLoadOptions options) {
  std::unique_ptr<XlaExecutable> made(new XlaExecutable(std::move(program), compiler->shared_client(), options));
  auto maker = std::make_shared<ProgramMaker>();
  maker->model = made->model_;
  maker->compiler = std::move(compiler);
  maker->matrix_precision = std::move(options.matrix_precision);
  maker->check_memory = std::move(options.check_memory);
  maker->threads = made->threads_;
  maker->call_limit = options.call_limit;
  made->maker_ = maker;
  KPT_RETURN_IF_ERROR(made->find_written(weights));
  maker->shards = made->shards_;
  KPT_RETURN_IF_ERROR(made->give_weights(weights));
  log::debug("weights are in the plugin", {{"device", made->model_->device}});
  if (options.stored || made->program().module()) {
    const ir::Bindings sizes = options.stored ? options.stored->sizes : ir::Bindings();
    const StoredExecutable* const stored = options.stored ? &*options.stored : nullptr;
    KPT_RETURN_IF_ERROR(
        made->programs_->get(made->make_key(sizes), [&maker, &sizes, stored] { return maker->make(sizes, stored); })
            .status());
  }
  return std::unique_ptr<Executable>(std::move(made));
}

Status XlaExecutable::find_written(const Weights& weights) {
  for (const std::uint32_t index : list_written(program(), weights)) {
    if (index >= graph().inputs.size()) return {StatusCode::kInternal, "a module writes an input that is not there"};
    const ir::GraphInput& input = graph().inputs[index];
    if (!is_weight(input)) continue;
    written_.emplace(input.name, index);
    model_->is_written[index] = true;
    shards_.keep_whole(index);
  }
  // What shares memory with a written weight would have to change with it, which separate buffers cannot.
  for (const auto& [name, index] : written_) {
    const auto own = weights.find(name);
    for (const ir::GraphInput& other : graph().inputs) {
      const auto found = is_weight(other) && other.name != name ? weights.find(other.name) : weights.end();
      if (own == weights.end() || found == weights.end()) continue;
      if (own->second.buffer() != found->second.buffer()) continue;
      return {
          StatusCode::kModelPreparation,
          fmt::format("buffer '{}' is written and shares memory with '{}', which XLA cannot express", name, other.name),
          client().plugin().vendor()};
    }
  }
  return {};
}

// Each has the limit for itself: reading a large model from a slow disk takes its time.
Status XlaExecutable::give_weights(const Weights& weights) {
  const auto give = [this](const Tensor& host, Cut cut) -> Result<DeviceParts> {
    KPT_ASSIGN_OR_RETURN(const Tensor kept, own_memory(host));
    // Weights lie in memory that nobody writes: where the plugin computes on the host, it may read them in place.
    return pjrt::call_within<DeviceParts>(*threads_, call_limit_, client().plugin().name(), "take a weight", vendor(),
                                          [client = model_->client, kept, cut, devices = model_->devices] {
                                            return upload_parts(*client, kept, pjrt::HostMemory::kShared, cut, devices);
                                          });
  };
  KPT_ASSIGN_OR_RETURN(model_->weights, upload_weights(graph(), weights, shards_, give));
  return {};
}

ShapePrograms::Key XlaExecutable::make_key(const ir::Bindings& sizes) const {
  ShapePrograms::Key key;
  if (program().module()) return key;
  for (const ir::SymbolRange& symbol : graph().symbols) key.push_back(sizes.find(symbol.name).value_or(-1));
  return key;
}

Result<ShapePrograms::Program> XlaExecutable::find_program(const RunContext& context, std::span<const Tensor> inputs) {
  ir::Bindings sizes;
  KPT_RETURN_IF_ERROR(bind_symbols(graph(), inputs, sizes));
  const ShapePrograms::Key key = make_key(sizes);
  if (!context.deadline && context.cancelled == nullptr) {  // the compiler has a limit of its own
    return programs_->get(key, [this, &sizes] { return maker_->make(sizes, nullptr); });
  }
  const auto make = [maker = maker_, sizes] { return maker->make(sizes, nullptr); };
  const auto left = [this](CallEnd end) {
    if (end == CallEnd::kCancelled) return Status(StatusCode::kCancelled, "the run was cancelled");
    return Status(StatusCode::kDeadlineExceeded,
                  "the run passed its time limit while its program was compiled; compiling goes on for later runs with "
                  "these sizes",
                  vendor());
  };
  const CallLimit limit = {context.deadline.value_or(CallLimit::kNever), context.cancelled};
  return ShapePrograms::get_within(programs_, key, make, compiling_, limit, left);
}

Result<std::unique_ptr<State>> XlaExecutable::make_state() const {
  std::map<std::string, DeviceParts, std::less<>> originals;
  for (const auto& [name, index] : written_) originals.emplace(name, model_->weights[index]);
  return std::unique_ptr<State>(
      std::make_unique<XlaState>(this, model_->client, model_->devices, originals, threads_, call_limit_));
}

std::vector<NodePlan> XlaExecutable::plan() const {
  std::vector<NodePlan> plans;
  for (const ir::Node& node : graph().nodes) {
    plans.push_back({node.name, node.target, "compiled by XLA with the whole graph"});
  }
  return plans;
}

Result<XlaState*> XlaExecutable::find_state(const RunContext& context) const {
  if (!is_stateful()) return static_cast<XlaState*>(nullptr);
  auto* state = dynamic_cast<XlaState*>(context.state);
  if (state == nullptr || state->owner() != this) {
    return Status(StatusCode::kInvalidArgument, "the model writes buffers: a run needs a state made by this model");
  }
  KPT_RETURN_IF_ERROR(state->check_usable());
  return state;
}

bool XlaExecutable::may_be_left(const RunContext& context) const {
  return limits_runs_ || context.deadline || context.cancelled != nullptr;
}

CallLimit XlaExecutable::limit_of(const RunContext& context) const {
  if (context.deadline) return {*context.deadline, context.cancelled};
  return {limits_runs_ ? std::chrono::steady_clock::now() + call_limit_ : CallLimit::kNever, context.cancelled};
}

// A plugin that keeps a run for itself would keep every further one, too.
Status XlaExecutable::wait_for_given_up(const RunContext& context) {
  if (threads_->given_up() == 0) {
    stuck_ = false;
    return {};
  }
  const CallEnd end = stuck_ ? CallEnd::kLate : threads_->wait_for_given_up(limit_of(context));
  if (end == CallEnd::kDone) return {};
  if (end == CallEnd::kCancelled) return {StatusCode::kCancelled, "the run was cancelled"};
  if (!context.deadline) stuck_ = true;
  if (!stuck_) {
    return {StatusCode::kDeadlineExceeded, "the run passed its time limit while an earlier one was still in the plugin",
            vendor()};
  }
  return {
      StatusCode::kDeviceNotAvailable,
      fmt::format("{} does not answer: a run that passed its time limit has not come back; see whether the device is "
                  "there and free (kpt doctor), and start the program again",
                  device()),
      vendor()};
}

Status XlaExecutable::run(RunContext& context, std::span<const Tensor> inputs, std::vector<Tensor>& outputs,
                          Event* event) {
  KPT_RETURN_IF_ERROR(check_limits(context));
  KPT_ASSIGN_OR_RETURN(XlaState* const state, find_state(context));
  KPT_RETURN_IF_ERROR(wait_for_given_up(context));
  KPT_ASSIGN_OR_RETURN(ShapePrograms::Program program, find_program(context, inputs));
  KPT_RETURN_IF_ERROR(check_limits(context));
  std::vector<Tensor> given = std::exchange(outputs, std::vector<Tensor>());
  if (may_be_left(context)) given.clear();  // the run may come back when its caller has freed them
  XlaRunOptions options;
  options.may_be_left = may_be_left(context);
  if (context.outputs_on_device) options.on_device = XlaRelease{threads_, call_limit_};
  KPT_ASSIGN_OR_RETURN(const std::shared_ptr<XlaRun> started,
                       XlaRun::make(model_, std::move(program), inputs, state, std::move(given), std::move(options)));
  if (event != nullptr) *event = Event();  // a run is over when it returns
  if (!may_be_left(context)) {
    started->execute();
    return started->finish(state, outputs);
  }
  const CallEnd end = threads_->run([started] { started->execute(); }, limit_of(context));
  if (end == CallEnd::kDone) return started->finish(state, outputs);
  started->give_up();
  if (started->takes_buffers()) state->mark_lost();
  if (end == CallEnd::kCancelled) return {StatusCode::kCancelled, "the run was cancelled"};
  if (!context.deadline) stuck_ = true;
  return {
      StatusCode::kDeadlineExceeded,
      fmt::format("the run passed its time limit; the plugin of {} cannot be stopped, and keeps its memory until it "
                  "comes back",
                  device()),
      vendor()};
}

}  // namespace kpt
