// The report of an optimization as JSON: what an artifact carries and `kpt optimize --json` prints.
#pragma once

#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "optimize/optimize.h"

namespace kpt {

nlohmann::ordered_json to_json(const OptimizeReport& report);

// Reads what to_json() wrote, as far as commands show it (not the culprit: artifacts have none). Fails with
// kCorruptData.
Result<OptimizeReport> read_optimize_report(const std::string& text);
// The same for a part of an artifact; nothing for one that `kpt compile` wrote without a level, which changes nothing
// in the model, and where nobody judged what the level did.
Result<std::optional<OptimizeReport>> find_optimize_report(const std::string& text);
// The level by whose rule a part of an artifact is judged: conservative where nothing was changed.
Level find_stored_level(const std::string& text);

}  // namespace kpt
