// Who is to blame when the gate refuses: first the pass, then the node.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "validation/gate.h"
#include "validation/layers.h"

namespace kpt {

// The model as it was after a pass that changed something.
struct PassStage {
  std::string pass;
  ImportedModel model;
};

struct Culprit {
  std::string pass;                   // empty when no pass is to blame
  std::string problem;                // when the model cannot even run after that pass, or is not right without any
  std::optional<LayerError> node;     // the first value that diverges; nothing when all values inside agree
  std::vector<std::string> suspects;  // nodes between the last values that agree and this one, it included
  std::string sentence() const;
};

// `stages` in the order of the passes, the last one being the candidate that was refused. The first stage that the gate
// refuses is the pass; the values of its graph against those of the model give the node. Nothing when no stage is
// refused.
Result<std::optional<Culprit>> locate_culprit(const ImportedModel& model, const Gate& gate,
                                              std::span<const PassStage> stages, const PlacedDevice& cpu);

}  // namespace kpt
