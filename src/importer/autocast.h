// What PyTorch's autocast does to the arguments of an operator, as a table: which operators it runs in the lower
// precision, which in float32, and which in the widest type of their arguments.
#pragma once

#include <optional>
#include <string>

#include "ir/graph.h"
#include "kpt/dtype.h"
#include "kpt/status.h"

namespace kpt {

struct AutocastRegion {
  std::string device;  // "cpu" or "cuda": which of PyTorch's two lists holds
  DType dtype = DType::kBFloat16;
};

// Whether autocast touches this value at all: a floating tensor on the region's device that is not float64.
bool is_autocast_eligible(const ir::Value& value, const AutocastRegion& region);

// The type to which the eligible tensors among the arguments of `node` are cast; nothing: they stay as they are. Fails
// with kUnsupported, naming the node, for an operator that is not in the list but whose recorded result shows that
// autocast acted inside it, and for devices whose list is not known.
Result<std::optional<DType>> find_autocast_type(const ir::Graph& graph, const ir::Node& node,
                                                const AutocastRegion& region);

}  // namespace kpt
