// Runs passes over a graph and gives each of them for free: timing, switching off, dumping, verification and a
// numerical check against the graph before it.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "passes/pass.h"

namespace kpt {

struct PassRecord {
  std::string pass;
  std::size_t changes = 0;
  std::vector<std::string> details;
  double milliseconds = 0;
  std::string skipped;      // why it did not run or was taken back; empty when it ran
  bool taken_back = false;  // it ran, and RunnerOptions::check_each failed
};

struct RunnerOptions {
  std::vector<std::string> disabled;  // names; an unknown one is kInvalidArgument, naming the nearest
  // Called after every pass that changed something. A failure takes the pass back (graph and weights as before it), its
  // message becomes the record's `skipped`, and the run goes on; kInternal ends the run instead.
  std::function<Status(const Pass& pass, const ir::Graph& before, const Weights& weights_before, const ir::Graph& after,
                       const Weights& weights_after)>
      check_each;
  std::function<void(const Pass& pass, const ir::Graph& after)> dump_after;
  // Places among the passes that do not run, and why, for the record: one pass may stand at several.
  std::map<std::size_t, std::string> left_out = {};
};

// In order, each followed by removal of what nobody uses and by verify(); a graph that does not verify is kInternal
// naming the pass, and one that a pass cannot rewrite kModelOptimization. On failure graph and weights are left as they
// were.
Result<std::vector<PassRecord>> run_passes(std::span<const Pass* const> passes, ir::Graph& graph, PassContext& context,
                                           const RunnerOptions& options = {});

}  // namespace kpt
