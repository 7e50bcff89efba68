// A pass: one rewrite of a graph. What it may know is in its PassContext; what it did is in its PassStats.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "device/execution.h"
#include "device/weights.h"
#include "ir/graph.h"
#include "kpt/status.h"

namespace kpt {

// What a pass did. `changes` counts rewrites; `details` has one short line for each where that helps a reader
// ("linear_3 + gelu_3"), and says why something was left alone ("linear_7 stays float32: its input is shared").
struct PassStats {
  std::size_t changes = 0;
  std::vector<std::string> details;
};

// Runs a graph without user inputs on the CPU and gives its outputs: how constants are folded without knowing an
// engine.
using Evaluator = std::function<Result<std::vector<Tensor>>(const ir::Graph& graph, const Weights& weights)>;

struct PassContext {
  Weights& weights;                       // passes add, replace and remove entries; memory of others is never written
  const Capabilities& capabilities;       // of the target
  Evaluator evaluator;                    // may be empty: then nothing is folded
  std::vector<std::string> kept_precise;  // names of nodes that stay in the model's own precision
  std::vector<std::string> not_quantized = {};   // of nodes that may become bfloat16, but nothing below it
  std::vector<std::string> slow_quantized = {};  // likewise: they were measured to be slower below it
  std::vector<std::string> wide_inputs = {};     // of FP8 products whose inputs E5M2 keeps better, by data
};

struct Pass {
  std::string_view name;     // "fuse_linear_activation", as --disable-pass takes it
  std::string_view summary;  // one line for `kpt explain` and the levels page
  bool differentiable;       // the graph can still be trained afterwards
  // Whether it is of use on this target; if not, why.
  Support (*applies)(const Capabilities& capabilities);
  Result<PassStats> (*run)(ir::Graph& graph, PassContext& context);
};

}  // namespace kpt
