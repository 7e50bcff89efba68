// Whether the parts of a target go together; asked before writing and after reading.
#pragma once

#include "artifact/artifact.h"
#include "kpt/status.h"

namespace kpt::artifact {

// The graph is well formed, every weight that it takes is there with its type and extents, and the report is a JSON
// object. Fails with `code`; the message has no file name.
Status check_target(const ArtifactTarget& target, StatusCode code);

// Names are there once, and a reference, if any, has the outputs' names and extents. Fails with `code`.
Status check_sample(const ArtifactSample& sample, StatusCode code);

}  // namespace kpt::artifact
