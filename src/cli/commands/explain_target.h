// How a model would run on hardware that is not here: the launches of each node, and what their kernels take.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "cli/opened_model.h"
#include "device/backend_context.h"
#include "device/compile_figures.h"
#include "device/execution.h"
#include "kpt/status.h"

namespace kpt::cli {

struct TargetExplanation {
  std::string target;
  bool stored = false;  // the program is an artifact's; otherwise it was compiled now
  CompileFigures figures;
  std::vector<NodePlan> plan;  // empty where the compiler made one program of all nodes
};

// Sizes of `model` are not looked at. Fails as `kpt compile` does, and with kModelPreparation when an artifact holds
// nothing for the target.
Result<TargetExplanation> explain_target(const ModelSource& model, const std::string& target,
                                         const BackendContext& context);

nlohmann::ordered_json to_json(const TargetExplanation& explanation);
std::string render(const TargetExplanation& explanation);

}  // namespace kpt::cli
