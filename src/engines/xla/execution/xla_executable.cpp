#include "engines/xla/execution/xla_executable.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "base/log.h"
#include "device/graph_arguments.h"
#include "device/run_limits.h"
#include "engines/xla/execution/donation.h"
#include "engines/xla/execution/module_attributes.h"
#include "engines/xla/execution/xla_tensor.h"
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

bool can_reuse(const Tensor& tensor, DType dtype, std::span<const std::int64_t> dims) {
  return tensor.defined() && tensor.dtype() == dtype && std::ranges::equal(tensor.dims(), dims) &&
         tensor.is_contiguous() && tensor.device() == "cpu" && tensor.data() != nullptr &&
         tensor.buffer()->writable() && tensor.buffer().use_count() == 1;
}

// Element by element into a tensor whose elements lie at strides.
void scatter(const Tensor& target, const Tensor& source) {
  const std::size_t width = element_bytes(target.dtype());
  const Dims& dims = target.dims();
  std::vector<std::int64_t> place(dims.size(), 0);
  const auto* from = static_cast<const std::byte*>(source.data());
  auto* to = static_cast<std::byte*>(target.data());
  for (std::int64_t count = target.element_count(); count > 0; --count, from += width) {
    std::int64_t offset = 0;
    for (std::size_t axis = 0; axis < dims.size(); ++axis) offset += place[axis] * target.strides()[axis];
    std::memcpy(to + offset * static_cast<std::int64_t>(width), from, width);
    for (std::size_t axis = dims.size(); axis-- > 0;) {
      if (++place[axis] < dims[axis]) break;
      place[axis] = 0;
    }
  }
}

}  // namespace

XlaExecutable::XlaExecutable(std::shared_ptr<const XlaProgram> program, std::shared_ptr<const ModuleCompiler> compiler,
                             XlaLoadOptions options)
    : program_(std::move(program)),
      device_(std::move(options.device)),
      first_device_(options.first_device),
      matrix_precision_(std::move(options.matrix_precision)),
      check_memory_(std::move(options.check_memory)),
      compiler_(std::move(compiler)),
      shards_(std::move(options.shards)) {
  user_position_.resize(graph().inputs.size());
  weights_.resize(graph().inputs.size());
  is_written_.resize(graph().inputs.size(), false);
  std::size_t position = 0;
  for (std::size_t i = 0; i < graph().inputs.size(); ++i) {
    if (graph().inputs[i].kind == ir::InputKind::kUser) user_position_[i] = position++;
  }
}

Result<std::unique_ptr<Executable>> XlaExecutable::load(std::shared_ptr<const XlaProgram> program,
                                                        const Weights& weights,
                                                        std::shared_ptr<const ModuleCompiler> compiler,
                                                        XlaLoadOptions options) {
  const std::optional<StoredExecutable> stored = std::move(options.stored);
  std::unique_ptr<XlaExecutable> made(new XlaExecutable(std::move(program), std::move(compiler), std::move(options)));
  KPT_RETURN_IF_ERROR(made->find_written(weights));
  KPT_RETURN_IF_ERROR(made->upload_weights(weights));
  if (stored || made->program_->module()) {
    const ir::Bindings sizes = stored ? stored->sizes : ir::Bindings();
    const std::string* const bytes = stored ? &stored->bytes : nullptr;
    XlaExecutable& self = *made;
    KPT_RETURN_IF_ERROR(
        made->programs_.get(made->make_key(sizes), [&self, &sizes, bytes] { return self.compile(sizes, bytes); })
            .status());
  }
  return std::unique_ptr<Executable>(std::move(made));
}

Status XlaExecutable::find_written(const Weights& weights) {
  for (const std::uint32_t index : list_written(*program_, weights)) {
    if (index >= graph().inputs.size()) return {StatusCode::kInternal, "a module writes an input that is not there"};
    const ir::GraphInput& input = graph().inputs[index];
    if (!is_weight(input)) continue;
    written_.emplace(input.name, index);
    is_written_[index] = true;
    shards_.keep_whole(index);
  }
  // What shares memory with a written weight would have to change with it, which separate buffers cannot.
  for (const auto& [name, index] : written_) {
    const auto own = weights.find(name);
    for (const ir::GraphInput& other : graph().inputs) {
      const auto found = is_weight(other) && other.name != name ? weights.find(other.name) : weights.end();
      if (own == weights.end() || found == weights.end()) continue;
      if (own->second.buffer() != found->second.buffer()) continue;
      return {StatusCode::kUnsupported,
              fmt::format("buffer '{}' is written and shares memory with '{}', which XLA cannot express", name,
                          other.name)};
    }
  }
  return {};
}

Status XlaExecutable::upload_weights(const Weights& weights) {
  // Tied weights are one buffer on the device too.
  struct Known {
    Tensor host;
    Cut cut;
    DeviceParts parts;
  };
  std::vector<Known> known;
  for (std::size_t i = 0; i < graph().inputs.size(); ++i) {
    const ir::GraphInput& input = graph().inputs[i];
    if (!is_weight(input)) continue;
    const auto found = weights.find(input.name);
    if (found == weights.end()) {
      return {StatusCode::kInvalidArgument, fmt::format("weight '{}' is missing", input.name)};
    }
    const Tensor& host = found->second;
    KPT_RETURN_IF_ERROR(check_weight(graph().at(input.value), input, host));
    const Cut cut = shards_.weight(i);
    const auto same = std::ranges::find_if(known, [&host, &cut](const Known& other) {
      return other.cut == cut && other.host.buffer() == host.buffer() && other.host.offset() == host.offset() &&
             other.host.dtype() == host.dtype() && other.host.dims() == host.dims() &&
             other.host.strides() == host.strides();
    });
    if (same != known.end()) {
      weights_[i] = same->parts;
      continue;
    }
    // Weights lie in memory that nobody writes: where the plugin computes on the host, it may read them in place.
    KPT_ASSIGN_OR_RETURN(weights_[i], upload_parts(client(), host, pjrt::HostMemory::kShared, cut, devices()));
    known.push_back({host, cut, weights_[i]});
  }
  return {};
}

Status XlaExecutable::check_module(const xla::LoweredModule& module, std::size_t outputs) const {
  bool sound = module.results.size() == outputs && module.output_count <= outputs;
  for (const xla::ModulePlace& place : module.arguments) {
    sound = sound && place.index < graph().inputs.size() &&
            (!weights_[place.index].empty() || user_position_[place.index].has_value());
  }
  for (std::size_t i = module.output_count; i < module.results.size() && sound; ++i) {
    const std::uint32_t index = module.results[i].index;
    sound = index < graph().inputs.size() && (is_written_[index] || user_position_[index].has_value());
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
  if (program_->module()) {
    made->module = *program_->module();
  } else {
    KPT_ASSIGN_OR_RETURN(made->module, xla::lower(graph(), sizes));
  }
  KPT_ASSIGN_OR_RETURN(made->cuts, shards_.cut(graph(), made->module));
  KPT_ASSIGN_OR_RETURN(CompiledModule compiled, find_executable(write_module(made->module, made->cuts), stored));
  KPT_RETURN_IF_ERROR(check_module(made->module, compiled.executable->output_count()));
  KPT_RETURN_IF_ERROR(check_memory(*compiled.executable));
  made->executable = std::move(compiled.executable);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  log::info("XLA program ready", {{"device", device_},
                                  {"from_cache", compiled.source == ModuleSource::kCache ? "true" : "false"},
                                  {"stored", compiled.source == ModuleSource::kStored ? "true" : "false"},
                                  {"milliseconds", fmt::format("{:.1f}", took.count())}});
  return ShapePrograms::Program(std::move(made));
}

ShapePrograms::Key XlaExecutable::make_key(const ir::Bindings& sizes) const {
  ShapePrograms::Key key;
  if (program_->module()) return key;
  for (const ir::SymbolRange& symbol : graph().symbols) key.push_back(sizes.find(symbol.name).value_or(-1));
  return key;
}

Result<ShapePrograms::Program> XlaExecutable::find_program(std::span<const Tensor> inputs) {
  ir::Bindings sizes;
  KPT_RETURN_IF_ERROR(bind_symbols(graph(), inputs, sizes));
  KPT_ASSIGN_OR_RETURN(auto found, programs_.get(make_key(sizes), [&] { return compile(sizes, nullptr); }));
  return found;
}

Result<std::unique_ptr<State>> XlaExecutable::make_state() const {
  std::map<std::string, DeviceParts, std::less<>> originals;
  for (const auto& [name, index] : written_) originals.emplace(name, weights_[index]);
  return std::unique_ptr<State>(std::make_unique<XlaState>(this, compiler_->shared_client(), devices(), originals));
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

Result<DeviceParts> XlaExecutable::give_input(const Tensor& given, Cut cut) const {
  KPT_ASSIGN_OR_RETURN(XlaTensorBuffer* const ours, find_xla_buffer(given, client()));
  if (ours != nullptr && ours->device() != device_) {
    return Status(StatusCode::kInvalidArgument,
                  fmt::format("{} lies on {}; upload it to {}", given.to_string(), ours->device(), device_));
  }
  if (ours != nullptr && shards_.devices() == 1) return DeviceParts{ours->content()};
  if (ours != nullptr) {  // it lies on the first device
    KPT_ASSIGN_OR_RETURN(const Tensor host, ours->content()->download());
    return upload_parts(client(), host, pjrt::HostMemory::kBorrowed, cut, devices());
  }
  // The run is over before the caller may touch its inputs again.
  const bool on_host = client().platform_name() == "cpu";
  return upload_parts(client(), given, on_host ? pjrt::HostMemory::kShared : pjrt::HostMemory::kBorrowed, cut,
                      devices());
}

Result<XlaExecutable::Arguments> XlaExecutable::gather(const ShapeProgram& program, std::span<const Tensor> inputs,
                                                       const XlaState* state) const {
  Arguments arguments;
  arguments.buffers.resize(shards_.devices());
  for (std::size_t i = 0; i < program.module.arguments.size(); ++i) {
    const std::uint32_t index = program.module.arguments[i].index;
    const std::string& name = graph().inputs[index].name;
    DeviceParts given;
    const DeviceParts* parts = &weights_[index];
    if (const auto position = user_position_[index]) {
      KPT_ASSIGN_OR_RETURN(given, give_input(inputs[*position], program.cuts.arguments[i]));
      arguments.uploaded.insert(arguments.uploaded.end(), given.begin(), given.end());
      parts = &given;
    } else if (is_written_[index]) {
      parts = &state->current(name);
      if (state->is_own(name)) arguments.given_away.push_back(i);
    }
    for (std::size_t device = 0; device < parts->size(); ++device) {
      arguments.buffers[device].push_back((*parts)[device].get());
    }
  }
  return arguments;
}

Status XlaExecutable::fetch_outputs(const ShapeProgram& program, const pjrt::Execution& execution,
                                    std::vector<Tensor>& outputs) {
  outputs.resize(program.module.output_count);
  std::vector<pjrt::Completion> pending;
  for (std::size_t i = 0; i < program.module.output_count; ++i) {
    const xla::ModulePlace& place = program.module.results[i];
    if (!can_reuse(outputs[i], place.dtype, place.dims)) {
      KPT_ASSIGN_OR_RETURN(outputs[i], Tensor::empty(place.dtype, place.dims));
    }
    DeviceParts parts;
    for (const auto& results : execution.outputs) parts.push_back(results[i]);
    KPT_RETURN_IF_ERROR(start_download(parts, program.cuts.results[i], outputs[i], pending));
  }
  Status first;
  for (pjrt::Completion& done : pending) {
    Status status = done.wait();
    if (first.ok()) first = std::move(status);
  }
  return first;
}

Status XlaExecutable::hand_back_written(const xla::LoweredModule& module, const pjrt::Execution& execution,
                                        std::span<const Tensor> inputs, XlaState* state) const {
  for (std::size_t i = module.output_count; i < module.results.size(); ++i) {
    const std::uint32_t index = module.results[i].index;
    const std::shared_ptr<pjrt::DeviceBuffer>& result = execution.outputs[0][i];
    const auto position = user_position_[index];
    if (!position) {
      DeviceParts parts;
      for (const auto& results : execution.outputs) parts.push_back(results[i]);
      state->replace(graph().inputs[index].name, std::move(parts));
      continue;
    }
    const Tensor& given = inputs[*position];
    KPT_ASSIGN_OR_RETURN(XlaTensorBuffer* const ours, find_xla_buffer(given, client()));
    if (ours != nullptr) {
      ours->replace(result);
    } else if (given.buffer()->writable()) {
      KPT_ASSIGN_OR_RETURN(const Tensor content, result->download());
      scatter(given, content);
    }
  }
  return {};
}

Status XlaExecutable::run(RunContext& context, std::span<const Tensor> inputs, std::vector<Tensor>& outputs,
                          Event* event) {
  KPT_RETURN_IF_ERROR(check_limits(context));
  KPT_ASSIGN_OR_RETURN(XlaState* const state, find_state(context));
  KPT_ASSIGN_OR_RETURN(const ShapePrograms::Program program, find_program(inputs));
  KPT_ASSIGN_OR_RETURN(Arguments arguments, gather(*program, inputs, state));
  KPT_RETURN_IF_ERROR(check_limits(context));
  auto execution = program->executable->execute(arguments.buffers, arguments.given_away);
  Status executed = execution.ok() ? execution->wait() : execution.status();
  if (!executed.ok()) {
    if (!arguments.given_away.empty()) state->mark_lost();
    return executed;
  }
  KPT_RETURN_IF_ERROR(hand_back_written(program->module, *execution, inputs, state));
  KPT_RETURN_IF_ERROR(fetch_outputs(*program, *execution, outputs));
  if (event != nullptr) *event = Event();  // a run is over when it returns
  return {};
}

}  // namespace kpt
