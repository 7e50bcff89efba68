// The passes of a level before a model is compiled ahead of time, for hardware that may not be here.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "optimize/optimize.h"

namespace kpt {

struct LevelOutcome {
  Level level = Level::kBalanced;
  ImportedModel model;             // after the passes; of a refusal as it came
  std::vector<std::string> needs;  // ArtifactTarget::needs
  std::vector<PassRecord> passes;
  std::optional<OptimizeReport> report;  // of the gate, and the device that it ran the model on; nothing: not judged
  std::string not_judged;                // why; empty where the gate judged

  bool refused() const { return report && !report->passed(); }
};

// Runs the passes of the level for `target`; nothing is measured. The gate judges runs on `here`, a device of the
// target, or where there is none (null) runs of the same graph on `cpu`. Where the CPU cannot run it, and without a CPU
// engine, nobody judges, and the outcome says why. Fails as optimize_model() does otherwise.
Result<LevelOutcome> apply_level(const ImportedModel& model, Level level, const DrawOptions& draws,
                                 const Target& target, const PlacedDevice* here, const Result<PlacedDevice>& cpu);

}  // namespace kpt
