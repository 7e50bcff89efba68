// The gate's report for machines and for artifacts.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "validation/gate.h"
#include "validation/locate.h"

namespace kpt {

// {"passed", "level", "tolerance", "bf16_run", "draws", "notes", "outputs": [{"name", "draw", "dtype", "passed",
// "candidate_error", "plain_error", "bf16_error", "max_difference", "cosine", "rule", "reason"}]}, and "allowed_error",
// "positions" and "draws_together" where there are such. Numbers that are not finite are null.
nlohmann::ordered_json to_json(const GateReport& report);
nlohmann::ordered_json to_json(const OutputVerdict& verdict);
nlohmann::ordered_json to_json(const LayerError& layer);
nlohmann::ordered_json to_json(const Culprit& culprit);

// Reads what to_json() wrote. Fails with kCorruptData.
Result<GateReport> read_gate_report(const nlohmann::ordered_json& json);

// Rows for format_table(): a heading, then one row per output, its worst draw. `verdict` is the last column.
std::vector<std::vector<std::string>> table_rows(const GateReport& report);

}  // namespace kpt
