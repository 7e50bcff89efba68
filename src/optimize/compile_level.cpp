#include "optimize/compile_level.h"

#include <utility>

#include <fmt/format.h>

#include "memory/available_memory.h"
#include "optimize/evaluator.h"
#include "optimize/precision_search.h"

namespace kpt {
namespace {

LevelOutcome take_judged(const ImportedModel& model, OptimizeOutcome outcome) {
  LevelOutcome taken;
  taken.level = outcome.report.level;
  taken.passes = outcome.report.passes;
  taken.model = model;
  if (outcome.artifact) {
    ArtifactTarget& part = outcome.artifact->targets.at(0);
    taken.model.graph = std::move(part.graph);
    taken.model.weights = std::move(part.weights);
    taken.needs = std::move(part.needs);
    taken.samples = std::move(outcome.artifact->samples);
  }
  taken.report = std::move(outcome.report);
  return taken;
}

// Whether a failure of runs on the CPU says nothing of other hardware: an operator that it does not have, a kernel or
// library that fails at these sizes or types, too little memory.
bool is_limit_of_the_cpu(StatusCode code) {
  switch (code) {
    case StatusCode::kModelOptimization:
    case StatusCode::kKernel:
    case StatusCode::kAttention:
    case StatusCode::kVendorLibrary:
    case StatusCode::kPrecisionCompilation: return true;
    default: return is_shortage(code);
  }
}

// `cpu`: null where there is no engine; then no constant is folded.
Result<LevelOutcome> run_unjudged(const ImportedModel& model, const OptimizeOptions& options, const Target& target,
                                  const PlacedDevice* cpu, std::string why) {
  LevelOutcome outcome;
  outcome.level = options.level;
  outcome.model = model;
  outcome.not_judged = std::move(why);
  KPT_ASSIGN_OR_RETURN(const std::vector<const Pass*> passes, choose_passes(options));
  PassContext context{
      outcome.model.weights, target.capabilities(), cpu != nullptr ? make_evaluator(*cpu) : Evaluator(), {}};
  KPT_ASSIGN_OR_RETURN(outcome.passes, run_passes(passes, outcome.model.graph, context));
  outcome.needs = list_fast_types(model, outcome.model.graph, target.capabilities());
  return outcome;
}

}  // namespace

Result<LevelOutcome> apply_level(const ImportedModel& model, Level level, const DrawOptions& draws,
                                 const Target& target, const DeviceHere& here, const Result<PlacedDevice>& cpu) {
  OptimizeOptions options;
  options.level = level;
  options.draws = draws;
  options.measure = false;
  // The engine is opened when it is first asked.
  const Status engine = cpu.ok() ? cpu->device->target().supports({}).status() : cpu.status();
  if (!engine.ok()) return run_unjudged(model, options, target, nullptr, engine.message());
  if (!here.device) options.target = &target;
  auto outcome = optimize_model(model, options, here.device ? *here.device : *cpu, *cpu);
  if (outcome.ok()) {
    if (!here.device) {
      const std::string why = here.why_not.empty()
                                  ? fmt::format("{} is not here", target.name())
                                  : fmt::format("{} cannot be used here: {}", target.name(), here.why_not);
      outcome->report.notes.push_back(
          fmt::format("the gate judged runs of the same graph on {}: {}", outcome->report.device, why));
    }
    return take_judged(model, std::move(*outcome));
  }
  if (here.device || !is_limit_of_the_cpu(outcome.status().code())) return outcome.status();
  return run_unjudged(model, options, target, &*cpu, outcome.status().message());
}

}  // namespace kpt
