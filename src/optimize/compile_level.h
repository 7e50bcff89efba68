// The passes of a level before a model is compiled ahead of time, for hardware that may not be here.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "optimize/optimize.h"

namespace kpt {

struct LevelOutcome {
  Level level = Level::kBalanced;
  ImportedModel model;                  // after the passes; of a refusal as it came
  std::vector<std::string> needs;       // ArtifactTarget::needs
  std::vector<ArtifactSample> samples;  // of the target's own device; without one nothing that it gives is known
  std::vector<PassRecord> passes;
  std::optional<OptimizeReport> report;  // of the gate, and the device that it ran the model on; nothing: not judged
  std::string not_judged;                // why; empty where the gate judged

  bool refused() const { return report && !report->passed(); }
};

// A device of the target that is here.
struct DeviceHere {
  std::optional<PlacedDevice> device;
  std::string why_not;  // where there may be one that cannot be used; empty where there is none
};

// Runs the passes of the level for `target`; nothing is measured. The gate judges runs on the device that is `here`, or
// where there is none runs of the same graph on `cpu`. Where the CPU cannot run it, fails at it or has too little
// memory, and without a CPU engine, nobody judges, and the outcome says why. Fails as optimize_model() does otherwise.
Result<LevelOutcome> apply_level(const ImportedModel& model, Level level, const DrawOptions& draws,
                                 const Target& target, const DeviceHere& here, const Result<PlacedDevice>& cpu);

}  // namespace kpt
