// From a model to a faster one that may be used: passes, measurement, the accuracy gate, the artifact.
//
// Nothing here is believed without being seen: what a pass did comes from its record, what was gained from alternating
// runs on this machine, what it costs in accuracy from the gate. A pass that makes the model slower is taken out,
// layers that cost too much accuracy in low precision stay precise, and the report names both. A refusal gives no
// artifact.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "artifact/artifact.h"
#include "optimize/measure.h"
#include "optimize/tune_nodes.h"
#include "passes/pipeline.h"
#include "passes/runner.h"
#include "validation/gate.h"
#include "validation/locate.h"

namespace kpt {

// A pass that was taken out again, or a decision to be told.
struct DroppedPass {
  std::string pass;
  std::string reason;  // "the model is 1.08 times faster without it"
};

// A pass that is none of the pipeline's, run right behind one that is, where that one stands first in the level.
struct AddedPass {
  const Pass* pass = nullptr;  // must outlive the optimization
  std::string behind;
};

struct OptimizeOptions {
  Level level = Level::kBalanced;
  std::vector<std::string> disabled;  // passes of the level to leave out, by name
  std::vector<std::string> enabled;   // passes to add to the level, by name; the user's word beats measurement
  std::vector<AddedPass> added;       // the caller's own; measured and judged like the others
  std::optional<double> tolerance;    // GateOptions::tolerance
  DrawOptions draws;
  bool check_each = false;  // the gate after every pass; one that fails it is taken back and named
  bool measure = true;      // false: nothing is timed and nothing is taken out for being slow
  // What the passes are for where that is not the device, which then only judges: hardware that is not here. Must
  // outlive the optimization; nothing can be measured for it.
  const Target* target = nullptr;
  double seconds_per_pair = 0.5;
  // Passes that lost in an earlier measurement of the same model here, on inputs of the same sizes: they are left out
  // and no pass is measured singly.
  std::optional<std::vector<DroppedPass>> known_losers;
  CompileCache* cache = nullptr;                                  // for kernels that were measured before; null: none
  std::string surroundings;                                       // TuneOptions::surroundings
  std::string source_sha256;                                      // hash_model() of the model, for the artifact
  std::string source;                                             // name of the model's file, for the artifact
  std::function<void(const Pass&, const ir::Graph&)> dump_after;  // sees the graph after every pass that changed it
  std::function<void(std::string_view step, double done)> progress;  // 0 to 1
};

struct OptimizeReport {
  Level level = Level::kBalanced;
  std::string device;
  std::uint64_t seed = 0;
  std::vector<PassRecord> passes;
  std::vector<DroppedPass> dropped;
  std::vector<std::string> kept_precise;   // nodes that stay in the model's own precision for accuracy's sake
  std::vector<std::string> not_quantized;  // nodes that stay above 8 bits for accuracy's sake
  std::vector<KernelChoice> kernels;       // of nodes of ours, where they were measured
  std::optional<PairedTimes> speed;        // first: plain, second: optimized
  std::string measured_on;                 // origin of the draw that was timed
  GateReport gate;
  std::optional<Culprit> culprit;  // of a refusal
  std::vector<std::string> notes;

  bool passed() const { return gate.passed(); }
};

struct OptimizeOutcome {
  OptimizeReport report;
  std::optional<Artifact> artifact;  // only when the gate passed
};

// The passes that an optimize with these options would run, in order: that of the pipeline, but of the passes that
// quantize weights, and so take nodes from each other, those that were asked for by name come first. Fails with
// kInvalidArgument for unknown names, and with kModelOptimization for an added pass behind one that the level does not
// have.
Result<std::vector<const Pass*>> choose_passes(const OptimizeOptions& options);

// Whether the pass gives weights, or products with them, eight bits or fewer. None for null.
bool quantizes_weights(const Pass* pass);

// `model` needs its sample inputs if they are to be used. `cpu` runs fp64 and folds constants. Fails with
// kInvalidArgument for unknown passes, kModelOptimization when the plain model cannot run or has no fp64 form, or a
// pass cannot rewrite it, kInternal when a pass left a broken graph.
Result<OptimizeOutcome> optimize_model(const ImportedModel& model, const OptimizeOptions& options,
                                       const PlacedDevice& device, const PlacedDevice& cpu);

}  // namespace kpt
