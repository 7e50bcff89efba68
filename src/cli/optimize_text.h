// The report of an optimization as people read it; shared by the commands that show one.
#pragma once

#include <string>
#include <vector>

#include "optimize/optimize.h"

namespace kpt::cli {

// "fold_constants (3), fuse_linear_activation (12)": passes that changed something; "none" when none did.
std::string applied_passes(const std::vector<PassRecord>& passes);

// Passes, what was left out and why, speed, the table of outputs with both errors, and the culprit of a refusal.
std::string render_report(const OptimizeReport& report, bool color);

}  // namespace kpt::cli
