// Compile figures as JSON: in reports, in the compile cache, in artifacts.
#pragma once

#include <nlohmann/json.hpp>

#include "device/compile_figures.h"
#include "kpt/status.h"

namespace kpt {

// Figures that are not known are null.
nlohmann::ordered_json to_json(const CompileFigures& figures);
nlohmann::ordered_json to_json(const KernelFigures& kernel);
nlohmann::ordered_json to_json(const CompileStatistics& statistics);

// What to_json() wrote. Missing and null figures stay absent. Fails with kCorruptData for anything else.
Result<CompileFigures> read_compile_figures(const nlohmann::ordered_json& json);

}  // namespace kpt
