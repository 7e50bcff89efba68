// Whether a model's batch can be run in parts (row_parts.h) or with further rows behind it.
//
// The rows come out the same only where none depends on another one. That is read off the graph: every input
// and output has the same symbol as its first extent and nowhere else, and every node in between is one that is known
// to keep rows apart, along axes that are not the first. What is not known is refused.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "ir/graph.h"
#include "kpt/status.h"

namespace kpt {

struct BatchRows {
  std::string symbol;      // of the first extents
  std::int64_t least = 1;  // rows that a part must have
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
};

// Fails with kUnsupported and the reason, naming the node that mixes rows.
Result<BatchRows> find_batch_rows(const ir::Graph& graph);

}  // namespace kpt
