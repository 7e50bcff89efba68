#include "engines/xla/execution/compile_ahead.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "base/text.h"
#include "engines/xla/execution/donation.h"
#include "engines/xla/execution/module_compiler.h"

namespace kpt {
namespace {

using Json = nlohmann::ordered_json;

std::string write_conditions(const CompileConditions& conditions) {
  const Json json = {{"plugin", conditions.plugin},
                     {"platform", conditions.platform},
                     {"platform_version", conditions.platform_version},
                     {"host", conditions.host},
                     {"options", conditions.options}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Of the devices that it may be spread over, programs that are stored have one.
ModuleCompilerOptions single_device_options(const XlaDevice& device, const pjrt::Client& client,
                                            const BackendContext& context) {
  XlaDeviceSetup setup = device.setup();
  setup.devices.count = 1;
  return make_compiler_options(setup, client, context);
}

// Why an executable is not for this machine, one clause; empty when it is.
std::string compare_conditions(const AheadProgram& program, const CompileConditions& here, const std::string& kind) {
  const std::string& stored_kind = program.figures()->device_kind;
  if (stored_kind != kind) {
    return fmt::format("it is for the device {}, and this is {}", printable(stored_kind, 100), kind);
  }
  const Json stored = Json::parse(program.facts().conditions, nullptr, false);
  const Json now = Json::parse(write_conditions(here));
  for (const auto& [name, value] : now.items()) {
    const auto found = stored.is_object() ? stored.find(name) : stored.end();
    if (!stored.is_object() || found == stored.end() || !found->is_string()) {
      return "what it was compiled with cannot be read";
    }
    if (*found == value) continue;
    if (name == "host") return "it was compiled for a processor with other features";
    if (name == "options")
      return "it was compiled with other options, such as another threads.count, or by another build of kpt";
    return fmt::format("it was compiled by the {} {}, and this is {}",
                       name == "platform_version" ? "platform version" : name,
                       printable(found->get<std::string>(), 200), printable(value.get<std::string>(), 200));
  }
  return {};
}

void tell_absent(std::string_view what, const Status& status) {
  if (status.code() == StatusCode::kUnsupported) return;
  log::info("a figure of the compiled program is absent", {{"what", std::string(what)}, {"reason", status.message()}});
}

// A figure that the plugin does not tell stays absent; the program is as good without it.
void add_figures(const ModuleCompiler& compiler, const std::shared_ptr<const pjrt::LoadedExecutable>& executable,
                 CompileFigures& figures) {
  if (const auto memory = compiler.memory(executable); memory.ok()) {
    const auto bytes = [](std::int64_t value) -> std::optional<std::uint64_t> {
      return value < 0 ? std::nullopt : std::optional(static_cast<std::uint64_t>(value));
    };
    if (memory->code_bytes > 0) figures.code_bytes = bytes(memory->code_bytes);  // the CPU plugin counts none
    figures.argument_bytes = bytes(memory->argument_bytes);
    figures.output_bytes = bytes(memory->output_bytes);
    figures.alias_bytes = bytes(memory->alias_bytes);
    figures.temporary_bytes = bytes(memory->temporary_bytes);
    if (memory->peak_bytes > 0) figures.peak_bytes = bytes(memory->peak_bytes);
  } else {
    tell_absent("memory", memory.status());
  }
  if (const auto costs = compiler.costs(executable); costs.ok()) {
    figures.flops = costs->flops;
    figures.transcendentals = costs->transcendentals;
    figures.bytes_accessed = costs->bytes_accessed;
    figures.compiler_seconds = costs->optimal_seconds;
  } else {
    tell_absent("costs", costs.status());
  }
}

}  // namespace

std::optional<StoredExecutable> take_stored(const AheadProgram& program, const ir::Graph& graph,
                                            const std::string& misfit) {
  auto sizes = read_sizes(graph, program.facts().sizes);
  const std::string reason = misfit.empty() ? sizes.status().message() : misfit;
  if (reason.empty()) return StoredExecutable{std::move(*sizes), program.facts().module, program.executable()};
  log::info("a stored program is not used and the model is compiled here", {{"reason", reason}});
  return std::nullopt;
}

Result<std::unique_ptr<Program>> compile_ahead(XlaDevice& device, ir::Graph graph, const ir::Bindings& sizes,
                                               const BackendContext& context, CompileStatistics& counts) {
  const std::string target(device.target().name());
  KPT_RETURN_IF_ERROR(check_sizes(graph, sizes, target));
  KPT_ASSIGN_OR_RETURN(const xla::LoweredModule module, xla::lower(graph, sizes));
  KPT_ASSIGN_OR_RETURN(const auto client, device.client());
  const ModuleCompilerOptions options = single_device_options(device, *client, context);
  MainAttributes attributes;
  mark_donated_buffers(graph, module, attributes);
  const ModuleCompiler compiler(client, options);
  auto made = compiler.compile_serialized(add_attributes(module.text, attributes));
  const bool kept = made.ok() && made->source == ModuleSource::kCache;
  ++(kept ? counts.hits : counts.misses);
  if (!kept) ++counts.compilations;
  if (!made.ok()) ++counts.errors;
  KPT_RETURN_IF_ERROR(made.status());
  pjrt::TopologyProgram compiled;
  compiled.executable = std::move(made->bytes);
  const pjrt::Plugin& plugin = client->plugin();
  compiled.figures.compiler =
      fmt::format("plugin {}; {}", plugin.name(),
                  pjrt::describe_compiler(fmt::format("{}.{}", plugin.api_major(), plugin.api_minor()),
                                          client->platform_version()));
  compiled.figures.device_kind = client->devices().at(device.setup().devices.first).kind;
  add_figures(compiler, made->executable, compiled.figures);
  device.let_go(std::move(made->executable));
  AheadFacts facts{write_sizes(sizes), hash_module(module), write_conditions(find_conditions(*client, options))};
  return std::unique_ptr<Program>(
      std::make_unique<AheadProgram>(kXlaAheadForm, target, std::move(graph), std::move(facts), std::move(compiled)));
}

Result<std::unique_ptr<Executable>> load_ahead(XlaDevice& device, const AheadProgram& program, const Weights& weights,
                                               const BackendContext& context) {
  KPT_ASSIGN_OR_RETURN(std::shared_ptr<const Program> made,
                       XlaProgram::make(std::string(program.target()), program.graph()));
  auto own = std::dynamic_pointer_cast<const XlaProgram>(std::move(made));
  KPT_ASSIGN_OR_RETURN(const auto client, device.client());
  const CompileConditions here = find_conditions(*client, single_device_options(device, *client, context));
  XlaLoadExtras extras;
  extras.stored =
      take_stored(program, own->graph(),
                  compare_conditions(program, here, client->devices().at(device.setup().devices.first).kind));
  return load_on_device(device, std::move(own), weights, context, std::move(extras));
}

}  // namespace kpt
