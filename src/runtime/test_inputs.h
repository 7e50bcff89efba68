// Inputs of graphs that tests write by hand.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ir/graph.h"

namespace kpt {

inline ir::ValueId add_input(ir::Graph& graph, const std::string& name, DType dtype, std::vector<ir::Expr> dims) {
  ir::Value value;
  value.name = name;
  value.tensor.dtype = dtype;
  value.tensor.dims = std::move(dims);
  const ir::ValueId id = graph.add_value(std::move(value));
  graph.inputs.push_back({ir::InputKind::kUser, id, name, true, {}});
  return id;
}

}  // namespace kpt
