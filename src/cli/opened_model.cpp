#include "cli/opened_model.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "api/artifact_loading.h"
#include "artifact/artifact.h"
#include "cli/model_arguments.h"
#include "optimize/optimize_json.h"
#include "validation/draws.h"

namespace kpt::cli {

void add_source_arguments(CLI::App& command, ModelSource& source) {
  command.add_option("MODEL", source.file, "a .kpt or .pt2 file")->required();
  command.add_option("--size", source.sizes, "the size of a symbol of generated inputs, e.g. s0=4")->type_name("S=N");
  command.add_option("--model", source.name, "which model of a file that holds several");
  command.add_option("--weights", source.weights, "a safetensors file that replaces weights by name");
}

Status check_source(const ModelSource& source) {
  if ((source.name.empty() && source.weights.empty()) || !is_artifact(source.file)) return {};
  return {StatusCode::kInvalidArgument, "--model and --weights are for .pt2 files"};
}

Result<OpenedModel> open_model(const ModelSource& source, const PlacedDevice& device) {
  KPT_RETURN_IF_ERROR(check_source(source));
  const std::string& file = source.file;
  OpenedModel opened;
  DrawOptions options{1, 0, {}, {}};
  KPT_ASSIGN_OR_RETURN(options.sizes, parse_sizes(source.sizes));
  if (!is_artifact(file)) {
    ImportOptions import_options;
    import_options.model_name = source.name;
    import_options.weights = source.weights;
    import_options.read_sample_inputs = true;
    KPT_ASSIGN_OR_RETURN(opened.model, import_model(file, import_options));
    KPT_ASSIGN_OR_RETURN(const std::vector<Draw> draws, make_draws(opened.model, options));
    opened.inputs = draws.front().inputs;
    return opened;
  }
  KPT_ASSIGN_OR_RETURN(Artifact artifact, read_artifact(file));
  ArtifactTarget* const target = find_part(artifact, device.device->target().name());
  if (target == nullptr) {
    return Status(StatusCode::kModelPreparation,
                  fmt::format("{} holds nothing for {}", std::filesystem::path(file).filename().string(),
                              device.device->info().name));
  }
  KPT_RETURN_IF_ERROR(check_needs(file, target->needs, device.device->target()));
  KPT_ASSIGN_OR_RETURN(opened.report, find_optimize_report(target->report));
  if (target->name == device.device->target().name()) opened.program = std::move(target->program);
  opened.model.file = file;
  opened.model.graph = std::move(target->graph);
  opened.model.weights = std::move(target->weights);
  if (!artifact.samples.empty() && options.sizes.empty()) {
    opened.inputs = std::move(artifact.samples.front().inputs);
  } else {
    KPT_ASSIGN_OR_RETURN(const std::vector<Draw> draws, make_draws(opened.model, options));
    opened.inputs = draws.front().inputs;
  }
  return opened;
}

Result<RepeatedRun> RepeatedRun::make(const ModelRun& run, std::vector<Tensor> inputs) {
  RepeatedRun repeated;
  repeated.executable_ = &run.loaded().executable();
  repeated.inputs_ = std::move(inputs);
  if (run.is_stateful()) {
    KPT_ASSIGN_OR_RETURN(repeated.state_, repeated.executable_->make_state());
  }
  return repeated;
}

Status RepeatedRun::prepare() {
  if (state_) KPT_RETURN_IF_ERROR(state_->reset());
  copies_.clear();
  for (const Tensor& input : inputs_) {
    KPT_ASSIGN_OR_RETURN(Tensor copy, input.contiguous_copy());
    copies_.push_back(std::move(copy));
  }
  return {};
}

Status RepeatedRun::run(NodeObserver* observer) {
  RunContext context;
  context.observer = observer;
  context.state = state_.get();
  return executable_->run(context, copies_, outputs_);
}

}  // namespace kpt::cli
