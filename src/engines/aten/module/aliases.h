// Which values of a graph may share memory, and which memory is written. From the operators' schemas; where those are
// silent, from what kind of kernel an operator has. Errs on the side of sharing.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <ATen/core/dispatch/Dispatcher.h>

#include "ir/graph.h"

namespace kpt::aten {

class AliasSets {
 public:
  explicit AliasSets(std::size_t value_count);

  // Values that may share memory have the same root.
  std::uint32_t root(std::uint32_t value) const;
  bool is_written(std::uint32_t value) const { return written_[root(value)]; }

  // An operator like t_() or unsqueeze_() changes what a tensor of the set looks like, not only what it holds.
  bool is_reshaped(std::uint32_t value) const { return reshaped_[root(value)]; }

  void unite(std::uint32_t a, std::uint32_t b);
  void mark_written(std::uint32_t value) { written_[root(value)] = true; }

  // Takes in a node. `op` is its operator; nothing for nodes that have none of libtorch's (their outputs then share
  // with all inputs).
  void add_node(const ir::Node& node, const std::optional<c10::OperatorHandle>& op);

 private:
  mutable std::vector<std::uint32_t> parent_;
  std::vector<bool> written_;
  std::vector<bool> reshaped_;
};

}  // namespace kpt::aten
