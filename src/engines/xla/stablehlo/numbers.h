// The numbers of a graph (sizes and what is computed from them), all known once its symbols are.
#pragma once

#include <optional>
#include <vector>

#include "engines/xla/stablehlo/builder.h"
#include "ir/graph.h"

namespace kpt::xla {

class Numbers {
 public:
  Numbers(const ir::Graph& graph, const ir::Bindings& sizes)
      : graph_(graph), sizes_(sizes), known_(graph.values.size()) {}

  // Nothing when its value is not known (it comes from the contents of a tensor, or a caller gives it).
  std::optional<Number> find(ir::ValueId id) const;
  // Throws Refusal when a symbol has no value or the arithmetic fails.
  std::int64_t evaluate(const ir::Expr& expression) const;
  Extents evaluate(const std::vector<ir::Expr>& expressions) const;

  // Whether the node computes numbers from numbers ("_operator.mul", "torch.sym_max", "aten.sym_size.int"); if so, does
  // it. Throws Refusal when an operand is not known.
  bool run_node(const ir::Node& node);

 private:
  Number operand(const ir::Argument& argument) const;

  const ir::Graph& graph_;
  const ir::Bindings& sizes_;
  std::vector<std::optional<Number>> known_;
};

}  // namespace kpt::xla
