// The matrices that a graph multiplies by, for advice on sizes.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ir/graph.h"
#include "ir/symbolic.h"

namespace kpt {

// Nothing where the value is no tensor or an extent depends on a symbol that `sizes` does not name.
std::optional<std::vector<std::int64_t>> find_extents(const ir::Graph& graph, ir::ValueId id,
                                                      const ir::Bindings& sizes);

// The matrix that rows are multiplied by. Of a convolution: a filter's elements, and the filters of a group.
struct MatrixExtents {
  std::int64_t inner = 0;
  std::int64_t columns = 0;
};

// None for a node that multiplies no matrices, or where `sizes` leave one open; two for attention.
std::vector<MatrixExtents> find_products(const ir::Graph& graph, const ir::Node& node, const ir::Bindings& sizes);

}  // namespace kpt
