// What `kpt compile` shows and stores about the programs that it made.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "device/compile_figures.h"
#include "device/execution.h"
#include "device/model_findings.h"
#include "optimize/compile_level.h"

namespace kpt::cli {

// One of the targets that a model was compiled for.
struct CompiledTarget {
  std::string name;
  std::optional<LevelOutcome> level;  // where one was asked for
  std::unique_ptr<Program> program;   // null when the gate refused what the level did
  std::vector<ModelFinding> findings;
  bool has_figures = false;  // a compiler made code, and told of it
  CompileFigures figures;
  std::optional<HardwareRates> rates;
  std::optional<CompileStatistics> statistics;
  std::optional<double> graph_flops;   // counted from the graph, for comparison; nothing while sizes are free
  std::optional<double> our_seconds;   // from published rates
  std::optional<double> dollars_hour;  // of one chip, as the user says
  std::string bytes;                   // the program, as it is stored
  double compile_seconds = 0;          // or what it took to find it in the cache
  std::vector<double> repeated;        // with --repeat: seconds of every compilation, the first one too

  // The device's share of its chip for a million runs, by the compiler's estimate of the time, else by ours; nothing
  // without a price or a time.
  std::optional<double> dollars_million_runs() const;
};

struct CompileOutcome {
  std::vector<CompiledTarget> targets;
  std::string written;  // empty: nothing
  double seconds = 0;

  // By the gate, of what the level did for the last target.
  bool refused() const { return !targets.empty() && targets.back().level && targets.back().level->refused(); }
};

nlohmann::ordered_json to_json(const std::vector<ModelFinding>& findings);
nlohmann::ordered_json to_json(const CompileOutcome& outcome);

// The report of a target in the artifact.
nlohmann::ordered_json make_report(const CompiledTarget& compiled,
                                   const std::map<std::string, std::int64_t, std::less<>>& sizes);

std::string render(const std::vector<ModelFinding>& findings);
std::string render(const CompileOutcome& outcome, bool color);

}  // namespace kpt::cli
