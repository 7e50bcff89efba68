#include "engines/xla/execution/program_maker.h"

#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "base/timing.h"
#include "engines/xla/execution/ahead_program.h"
#include "engines/xla/execution/donation.h"
#include "engines/xla/execution/module_attributes.h"

namespace kpt {

Status ProgramMaker::check_module(const xla::LoweredModule& module, std::size_t outputs) const {
  bool sound = module.results.size() == outputs && module.output_count <= outputs;
  for (const xla::ModulePlace& place : module.arguments) {
    sound = sound && place.index < graph().inputs.size() &&
            (!model->weights[place.index].empty() || model->user_position[place.index].has_value());
  }
  for (std::size_t i = module.output_count; i < module.results.size() && sound; ++i) {
    const std::uint32_t index = module.results[i].index;
    sound = index < graph().inputs.size() && (model->is_written[index] || model->user_position[index].has_value());
  }
  if (sound) return {};
  return {StatusCode::kInternal,
          fmt::format("the module does not fit its graph: {} results, {} expected", outputs, module.results.size())};
}

std::string ProgramMaker::write_module(const xla::LoweredModule& module, const ModuleCuts& cuts) const {
  MainAttributes attributes;
  mark_donated_buffers(graph(), module, attributes);
  if (shards.devices() > 1) {
    attributes.mesh = mesh_operation(shards.devices());
    for (std::size_t i = 0; i < module.arguments.size(); ++i) {
      const xla::ModulePlace& place = module.arguments[i];
      attributes.arguments[place.index].push_back(sharding_attribute(place.dims.size(), cuts.arguments[i]));
    }
    for (std::size_t i = 0; i < module.results.size(); ++i) {
      attributes.results[i].push_back(sharding_attribute(module.results[i].dims.size(), cuts.results[i]));
    }
  }
  return set_matrix_precision(add_attributes(module.text, attributes), matrix_precision);
}

Result<CompiledModule> ProgramMaker::find_executable(const ShapeProgram& made, const StoredExecutable* stored) const {
  if (stored != nullptr) {
    std::string reason = "the model is lowered otherwise now than when it was compiled";
    if (stored->module == hash_module(made.module)) {
      auto loaded = compiler->load(stored->bytes);
      if (loaded.ok()) return CompiledModule{std::move(*loaded), ModuleSource::kStored};
      reason = loaded.status().message();
    }
    log::info("a stored program is not used and the model is compiled here", {{"reason", reason}});
  }
  return compiler->compile(write_module(made.module, made.cuts));
}

Status ProgramMaker::check_needs(const std::shared_ptr<const pjrt::LoadedExecutable>& executable) const {
  if (!check_memory) return {};
  const auto memory = compiler->memory(executable);
  if (memory.status().code() == StatusCode::kUnsupported) return {};
  KPT_RETURN_IF_ERROR(memory.status());
  return check_memory(*memory);
}

Result<ShapePrograms::Program> ProgramMaker::make(const ir::Bindings& sizes, const StoredExecutable* stored) const {
  const auto start = std::chrono::steady_clock::now();
  auto made = std::make_shared<ShapeProgram>();
  if (const auto& module = model->program->module()) {
    made->module = *module;
  } else {
    KPT_ASSIGN_OR_RETURN(made->module, xla::lower(graph(), sizes));
  }
  KPT_ASSIGN_OR_RETURN(made->cuts, shards.cut(graph(), made->module));
  KPT_ASSIGN_OR_RETURN(CompiledModule compiled, find_executable(*made, stored));
  Status fits = check_module(made->module, compiled.executable->output_count());
  if (fits.ok()) fits = check_needs(compiled.executable);
  if (!fits.ok()) {
    threads->let_go(std::move(compiled.executable), call_limit, model->client->plugin().name());
    return fits;
  }
  made->executable = std::move(compiled.executable);
  const double took = milliseconds_since(start);
  log::info("XLA program ready", {{"device", model->device},
                                  {"from_cache", compiled.source == ModuleSource::kCache ? "true" : "false"},
                                  {"stored", compiled.source == ModuleSource::kStored ? "true" : "false"},
                                  {"milliseconds", fmt::format("{:.1f}", took)}});
  return ShapePrograms::Program(std::move(made));
}

}  // namespace kpt
