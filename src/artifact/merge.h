// Several artifacts of one model, for different targets, as one.
#pragma once

#include <vector>

#include "artifact/artifact.h"
#include "kpt/status.h"

namespace kpt {

// The parts in their order, with the first one's producer and source. Samples stay with the parts that gave their
// outputs. Weights of equal names and bytes, and likewise inputs and references of samples, share memory afterwards:
// the file holds them once. Fails with kInvalidArgument when there is none, when the models differ (source_sha256), and
// when a target is there twice.
Result<Artifact> merge_artifacts(std::vector<Artifact> artifacts);

}  // namespace kpt
