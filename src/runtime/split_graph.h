// The parts of a split graph as graphs of their own, and what goes from one to the next.
#pragma once

#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "device/placement.h"
#include "ir/graph.h"
#include "kpt/status.h"
#include "runtime/split_plan.h"

namespace kpt {

inline constexpr std::size_t kNoSlot = std::numeric_limits<std::size_t>::max();

// Something that parts read or callers receive, kept on the host during a run.
struct SplitSlot {
  ir::ValueId value = ir::kNoValue;  // kNoValue: a size that the device must be told beside what it reads
  std::size_t user = kNoSlot;        // which of the caller's inputs it is; kNoSlot: none
  bool is_size = false;              // computed from the sizes of the inputs
  ir::Expr size;                     // of is_size
  // The last part that reads it; kNoSlot when callers receive it.
  std::size_t last_reader = 0;
  bool read_on_host = false;  // by a part there
};

// One part.
struct SplitPart {
  Side side = Side::kDevice;
  ir::Graph graph;
  std::vector<std::size_t> nodes;    // by node of `graph`: its position in the whole one
  std::vector<std::size_t> inputs;   // slots, one for each kUser input of `graph`
  std::vector<std::size_t> outputs;  // slots, one for each output of `graph`
};

// What a caller receives: a slot, or a weight as it is.
struct SplitOutput {
  std::size_t slot = kNoSlot;
  std::string weight;
};

struct SplitGraph {
  std::vector<SplitPart> parts;
  std::vector<SplitSlot> slots;
  std::vector<SplitOutput> outputs;  // one for each user output that is a value
  Placement placement;               // without advice; devices as named
};

// Weights keep their names, so that all parts are loaded with the whole model's. Fails with kUnsupported for an output
// that is an argument fixed by export, and with kInternal when a part is not well formed.
Result<SplitGraph> build_parts(const SplitPlan& plan, const std::string& device, const std::string& host);

// Both steps, until the device takes all its parts: what it takes in the whole graph it may refuse in a part, where a
// constant of the graph is an input. Fails as they do.
Result<SplitGraph> split_graph(const ir::Graph& graph, const Device& device, const Device& host);

}  // namespace kpt
