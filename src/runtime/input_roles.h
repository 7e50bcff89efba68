// What an input means to a model, read from where the graph takes it: so that generated inputs are of the kind that the
// model was made for.
#pragma once

#include <cstdint>
#include <optional>

#include "ir/graph.h"

namespace kpt {

enum class InputRole : std::uint8_t {
  kPlain,         // floats: normal; integers: 0 or 1
  kIndex,         // rows of a table: token ids
  kPosition,      // counts up along the last axis
  kMask,          // 0 or 1, ones first in every row
  kAdditiveMask,  // floating, added to scores: 0 where one may look, far below zero elsewhere
};

struct InputUse {
  InputRole role = InputRole::kPlain;
  std::optional<std::int64_t> below;  // of kIndex and kPosition: the first value that no table holds
};

// Follows the input through views, casts and additions of constants to the tables that it indexes (embedding, index,
// index_select, gather) and to the comparisons, selections and attention masks that it becomes. Indexing beats the
// rest: token ids are often compared with the padding id as well.
InputUse find_input_use(const ir::Graph& graph, const ir::GraphInput& input);

}  // namespace kpt
