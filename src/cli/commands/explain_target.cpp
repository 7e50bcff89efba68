#include "cli/commands/explain_target.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "api/target_list.h"
#include "artifact/artifact.h"
#include "cli/program_text.h"
#include "cli/terminal.h"
#include "device/compile_figures_json.h"
#include "device/hardware_json.h"
#include "importer/model_file.h"
#include "runtime/loaded_model.h"

namespace kpt::cli {
namespace {

using Json = nlohmann::ordered_json;

Result<std::unique_ptr<Program>> open_program(const ModelSource& source, const Target& target, bool& stored) {
  KPT_RETURN_IF_ERROR(check_source(source));
  const std::string& file = source.file;
  ImportedModel model;
  if (!is_artifact(file)) {
    KPT_ASSIGN_OR_RETURN(model, import_model(file, {.model_name = source.name, .weights = source.weights}));
  } else {
    KPT_ASSIGN_OR_RETURN(Artifact artifact, read_artifact(file));
    const auto part = std::ranges::find(artifact.targets, target.name(), &ArtifactTarget::name);
    if (part == artifact.targets.end()) {
      return Status(
          StatusCode::kModelPreparation,
          fmt::format("{} holds nothing for {}", std::filesystem::path(file).filename().string(), target.name()));
    }
    stored = !part->program.empty();
    if (stored) return target.deserialize(part->program);
    model.graph = std::move(part->graph);
    model.weights = std::move(part->weights);
  }
  KPT_RETURN_IF_ERROR(detail::check_support(model, target));
  return target.compile_sized(std::move(model.graph), {});
}

}  // namespace

Result<TargetExplanation> explain_target(const ModelSource& model, const std::string& target,
                                         const BackendContext& context) {
  KPT_ASSIGN_OR_RETURN(const PlacedTarget placed, find_absent_target(target, context));
  TargetExplanation explanation;
  KPT_ASSIGN_OR_RETURN(const auto program, open_program(model, *placed.target, explanation.stored));
  explanation.target = program->target();
  explanation.plan = program->plan();
  if (const CompileFigures* figures = program->figures()) explanation.figures = *figures;
  return explanation;
}

Json to_json(const TargetExplanation& explanation) {
  Json json = {{"target", explanation.target},
               {"stored", explanation.stored},
               {"figures", kpt::to_json(explanation.figures)},
               {"nodes", Json::array()}};
  for (const NodePlan& plan : explanation.plan) {
    json["nodes"].push_back({{"node", plan.node}, {"operator", plan.target}, {"how", plan.how}});
  }
  return json;
}

std::string render(const TargetExplanation& explanation) {
  const CompileFigures& figures = explanation.figures;
  std::string text =
      fmt::format("for {} ({}), {}; nothing was run\ncompiler: {}\n", explanation.target, figures.device_kind,
                  explanation.stored ? "as the file holds it" : "compiled here", figures.compiler);
  if (figures.code_bytes) text += fmt::format("code: {}\n", format_bytes(*figures.code_bytes));
  std::vector<std::vector<std::string>> rows = {{"node", "operator", "how"}};
  for (const NodePlan& plan : explanation.plan) rows.push_back({plan.node, plan.target, plan.how});
  if (rows.size() > 1) text += "\n" + format_table(rows);
  if (!figures.kernels.empty()) text += "\n" + render_kernels(figures.kernels);
  return text;
}

}  // namespace kpt::cli
