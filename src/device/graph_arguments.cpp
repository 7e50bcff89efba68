#include "device/graph_arguments.h"

#include <fmt/format.h>

namespace kpt {

Status check_weight(const ir::Value& value, const ir::GraphInput& input, const Tensor& weight) {
  bool fits = weight.dtype() == value.tensor.dtype && weight.dims().size() == value.tensor.dims.size();
  for (std::size_t axis = 0; fits && axis < weight.dims().size(); ++axis) {
    fits = value.tensor.dims[axis].constant() == weight.dims()[axis];
  }
  if (fits) return {};
  return {StatusCode::kInvalidArgument,
          fmt::format("weight '{}' is {}, which is not what the graph takes", input.name, weight.to_string())};
}

std::set<std::string, std::less<>> find_shown_symbols(const ir::Graph& graph) {
  std::set<std::string, std::less<>> shown;
  for (const ir::GraphInput& input : graph.inputs) {
    if (input.kind != ir::InputKind::kUser || input.value == ir::kNoValue) continue;
    const ir::Value& value = graph.at(input.value);
    if (value.kind == ir::ValueKind::kInt && value.expression.is_symbol()) shown.emplace(value.expression.name());
    if (value.kind != ir::ValueKind::kTensor) continue;
    for (const ir::Expr& dim : value.tensor.dims) {
      if (dim.is_symbol()) shown.emplace(dim.name());
    }
  }
  return shown;
}

Status bind_symbols(const ir::Graph& graph, std::span<const Tensor> inputs, ir::Bindings& sizes) {
  std::size_t position = 0;
  for (const ir::GraphInput& input : graph.inputs) {
    if (input.kind != ir::InputKind::kUser) continue;
    const Tensor& given = inputs[position++];
    const ir::Value& value = graph.at(input.value);
    if (value.kind == ir::ValueKind::kInt && value.expression.is_symbol()) {
      if (given.device() != "cpu" || given.data() == nullptr || given.dtype() != DType::kInt64) {
        return {StatusCode::kInvalidArgument,
                fmt::format("input '{}' is a size and must be on the host as int64", input.name)};
      }
      sizes.set(value.expression.name(), *static_cast<const std::int64_t*>(given.data()));
    }
    if (value.kind != ir::ValueKind::kTensor) continue;
    for (std::size_t axis = 0; axis < value.tensor.dims.size() && axis < given.dims().size(); ++axis) {
      const ir::Expr& dim = value.tensor.dims[axis];
      if (dim.is_symbol()) sizes.set(dim.name(), given.dims()[axis]);
    }
  }
  return {};
}

}  // namespace kpt
