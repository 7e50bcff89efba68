// What a `.kpt` asks itself when it is loaded.
#pragma once

#include <string>
#include <vector>

#include "artifact/artifact.h"
#include "validation/gate.h"

namespace kpt {

// Answers of the candidate on `device`, and of fp64, for the first draws of the gate. Where the outputs of one take
// more than 32 MiB with fp64's, those above their share keep their end alone (sample_end.h), with a line in `notes`.
Result<std::vector<ArtifactSample>> make_samples(const ImportedModel& candidate, const Gate& gate,
                                                 const PlacedDevice& device, std::vector<std::string>& notes);

}  // namespace kpt
