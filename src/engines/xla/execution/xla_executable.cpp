#include "engines/xla/execution/xla_executable.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "device/graph_arguments.h"
#include "device/run_limits.h"
#include "engines/xla/execution/donation.h"
#include "engines/xla/execution/module_attributes.h"
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

// Tied weights are one buffer on the device too.
Result<std::vector<DeviceParts>> upload_weights(const pjrt::Client& client, const ir::Graph& graph,
                                                const Weights& weights, const ShardPlan& shards, DeviceRange devices) {
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
    // Weights lie in memory that nobody writes: where the plugin computes on the host, it may read them in place.
    KPT_ASSIGN_OR_RETURN(uploaded[i], upload_parts(client, host, pjrt::HostMemory::kShared, cut, devices));
    known.push_back({host, cut, uploaded[i]});
  }
  return uploaded;
}

}  // namespace

XlaExecutable::XlaExecutable(std::shared_ptr<const XlaProgram> program, std::shared_ptr<const ModuleCompiler> compiler,
                             XlaLoadOptions options)
    : compiler_(std::move(compiler)),
      matrix_precision_(std::move(options.matrix_precision)),
      check_memory_(std::move(options.check_memory)),
      call_limit_(options.call_limit),
      limits_runs_(options.limits_runs),
      shards_(std::move(options.shards)),
      model_(std::make_shared<XlaModel>()),
      threads_(std::make_shared<pjrt::CallThreads>()) {
  model_->program = std::move(program);
  model_->client = compiler_->shared_client();
  model_->device = std::move(options.device);
  model_->devices = {options.first_device, shards_.devices()};
  model_->user_position.resize(graph().inputs.size());
  model_->weights.resize(graph().inputs.size());
  model_->is_written.resize(graph().inputs.size(), false);
  std::size_t position = 0;
  for (std::size_t i = 0; i < graph().inputs.size(); ++i) {
    if (graph().inputs[i].kind == ir::InputKind::kUser) model_->user_position[i] = position++;
  }
  const auto dispose = [threads = threads_, limit = call_limit_, plugin = client().plugin().name()](
                           std::shared_ptr<const void> things) { threads->let_go(std::move(things), limit, plugin); };
  programs_ = std::make_unique<ShapePrograms>(kMostShapes, dispose);
}

XlaExecutable::~XlaExecutable() {
  struct Held {
    std::shared_ptr<XlaModel> model;
    std::unique_ptr<ShapePrograms> programs;
    std::shared_ptr<const ModuleCompiler> compiler;
  };
  const std::string plugin = client().plugin().name();
  threads_->let_go(Held{std::move(model_), std::move(programs_), std::move(compiler_)}, call_limit_, plugin);
}

Result<std::unique_ptr<Executable>> XlaExecutable::load(std::shared_ptr<const XlaProgram> program,
                                                        const Weights& weights,
                                                        std::shared_ptr<const ModuleCompiler> compiler,
                                                        XlaLoadOptions options) {
  const std::optional<StoredExecutable> stored = std::move(options.stored);
  std::unique_ptr<XlaExecutable> made(new XlaExecutable(std::move(program), std::move(compiler), std::move(options)));
  KPT_RETURN_IF_ERROR(made->find_written(weights));
  KPT_RETURN_IF_ERROR(made->give_weights(weights));
  log::debug("weights are in the plugin", {{"device", made->model_->device}});
  if (stored || made->program().module()) {
    const ir::Bindings sizes = stored ? stored->sizes : ir::Bindings();
    const std::string* const bytes = stored ? &stored->bytes : nullptr;
    XlaExecutable& self = *made;
    KPT_RETURN_IF_ERROR(
        made->programs_->get(made->make_key(sizes), [&self, &sizes, bytes] { return self.compile(sizes, bytes); })
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

Status XlaExecutable::give_weights(const Weights& weights) {
  KPT_ASSIGN_OR_RETURN(model_->weights,
                       pjrt::call_within<std::vector<DeviceParts>>(
                           *threads_, call_limit_, client().plugin().name(), "take the weights", vendor(),
                           [client = model_->client, program = model_->program, weights, shards = shards_,
                            devices = model_->devices]() -> Result<std::vector<DeviceParts>> {
                             return upload_weights(*client, program->graph(), weights, shards, devices);
                           }));
  return {};
}

Status XlaExecutable::check_module(const xla::LoweredModule& module, std::size_t outputs) const {
  bool sound = module.results.size() == outputs && module.output_count <= outputs;
  for (const xla::ModulePlace& place : module.arguments) {
    sound = sound && place.index < graph().inputs.size() &&
            (!model_->weights[place.index].empty() || model_->user_position[place.index].has_value());
  }
  for (std::size_t i = module.output_count; i < module.results.size() && sound; ++i) {
    const std::uint32_t index = module.results[i].index;
    sound = index < graph().inputs.size() && (model_->is_written[index] || model_->user_position[index].has_value());
  }
  if (sound) return {};
  return {StatusCode::kInternal,
          fmt::format("the module does not fit its graph: {} results, {} expected", outputs, module.results.size())};
}

std::string XlaExecutable::write_module(const xla::LoweredModule& module, const ModuleCuts& cuts) const {
  MainAttributes attributes;
  mark_donated_buffers(graph(), module, attributes);
  if (shards_.devices() > 1) {
    attributes.mesh = mesh_operation(shards_.devices());
    for (std::size_t i = 0; i < module.arguments.size(); ++i) {
      const xla::ModulePlace& place = module.arguments[i];
      attributes.arguments[place.index].push_back(sharding_attribute(place.dims.size(), cuts.arguments[i]));
    }
    for (std::size_t i = 0; i < module.results.size(); ++i) {
      attributes.results[i].push_back(sharding_attribute(module.results[i].dims.size(), cuts.results[i]));
    }
  }
  return set_matrix_precision(add_attributes(module.text, attributes), matrix_precision_);
}

Result<CompiledModule> XlaExecutable::find_executable(const std::string& text, const std::string* stored) const {
  if (stored != nullptr) {
    auto loaded = compiler_->load(*stored);
    if (loaded.ok()) return CompiledModule{std::move(*loaded), ModuleSource::kStored};
    log::info("a stored program is not used and the model is compiled here", {{"reason", loaded.status().message()}});
  }
  return compiler_->compile(text);
}

Status XlaExecutable::check_memory(const pjrt::LoadedExecutable& executable) const {
  if (!check_memory_) return {};
  const auto memory = executable.memory();
  if (memory.status().code() == StatusCode::kUnsupported) return {};
  KPT_RETURN_IF_ERROR(memory.status());
  return check_memory_(*memory);
}

Result<ShapePrograms::Program> XlaExecutable::compile(const ir::Bindings& sizes, const std::string* stored) const {
  const auto start = std::chrono::steady_clock::now();
  auto made = std::make_shared<ShapeProgram>();
  if (program().module()) {
    made->module = *program().module();
  } else {
    KPT_ASSIGN_OR_RETURN(made->module, xla::lower(graph(), sizes));
  }
  KPT_ASSIGN_OR_RETURN(made->cuts, shards_.cut(graph(), made->module));
  KPT_ASSIGN_OR_RETURN(CompiledModule compiled, find_executable(write_module(made->module, made->cuts), stored));
  Status fits = check_module(made->module, compiled.executable->output_count());
  if (fits.ok()) fits = check_memory(*compiled.executable);
  if (!fits.ok()) {
    threads_->let_go(std::move(compiled.executable), call_limit_, client().plugin().name());
    return fits;
  }
  made->executable = std::move(compiled.executable);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  log::info("XLA program ready", {{"device", model_->device},
                                  {"from_cache", compiled.source == ModuleSource::kCache ? "true" : "false"},
                                  {"stored", compiled.source == ModuleSource::kStored ? "true" : "false"},
                                  {"milliseconds", fmt::format("{:.1f}", took.count())}});
  return ShapePrograms::Program(std::move(made));
}

ShapePrograms::Key XlaExecutable::make_key(const ir::Bindings& sizes) const {
  ShapePrograms::Key key;
  if (program().module()) return key;
  for (const ir::SymbolRange& symbol : graph().symbols) key.push_back(sizes.find(symbol.name).value_or(-1));
  return key;
}

Result<ShapePrograms::Program> XlaExecutable::find_program(std::span<const Tensor> inputs) {
  ir::Bindings sizes;
  KPT_RETURN_IF_ERROR(bind_symbols(graph(), inputs, sizes));
  KPT_ASSIGN_OR_RETURN(auto found, programs_->get(make_key(sizes), [&] { return compile(sizes, nullptr); }));
  return found;
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

pjrt::CallLimit XlaExecutable::limit_of(const RunContext& context) const {
  return {context.deadline.value_or(std::chrono::steady_clock::now() + call_limit_), context.cancelled};
}

// A plugin that keeps a run for itself would keep every further one, too.
Status XlaExecutable::wait_for_given_up(const RunContext& context) {
  if (threads_->given_up() == 0) {
    stuck_ = false;
    return {};
  }
  const pjrt::CallEnd end = stuck_ ? pjrt::CallEnd::kLate : threads_->wait_for_given_up(limit_of(context));
  if (end == pjrt::CallEnd::kDone) return {};
  if (end == pjrt::CallEnd::kCancelled) return {StatusCode::kCancelled, "the run was cancelled"};
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
  KPT_ASSIGN_OR_RETURN(ShapePrograms::Program program, find_program(inputs));
  KPT_RETURN_IF_ERROR(check_limits(context));
  const bool may_be_left = limits_runs_ || context.deadline || context.cancelled != nullptr;
  std::vector<Tensor> given = std::exchange(outputs, std::vector<Tensor>());
  if (may_be_left) given.clear();  // the run may come back when its caller has freed them
  const auto started =
      std::make_shared<XlaRun>(model_, std::move(program), inputs, state, std::move(given), may_be_left);
  if (event != nullptr) *event = Event();  // a run is over when it returns
  if (!may_be_left) {
    started->execute();
    return started->finish(state, outputs);
  }
  pjrt::CallLimit limit = limit_of(context);
  if (!limits_runs_ && !context.deadline) limit.end = std::chrono::steady_clock::time_point::max();
  const pjrt::CallEnd end = threads_->run([started] { started->execute(); }, limit);
  if (end == pjrt::CallEnd::kDone) return started->finish(state, outputs);
  started->give_up();
  if (started->takes_buffers()) state->mark_lost();
  if (end == pjrt::CallEnd::kCancelled) return {StatusCode::kCancelled, "the run was cancelled"};
  if (!context.deadline) stuck_ = true;
  return {
      StatusCode::kDeadlineExceeded,
      fmt::format("the run passed its time limit; the plugin of {} cannot be stopped, and keeps its memory until it "
                  "comes back",
                  device()),
      vendor()};
}

}  // namespace kpt
