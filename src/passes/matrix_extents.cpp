#include "passes/matrix_extents.h"

#include "passes/node_arguments.h"

namespace kpt {

std::optional<std::vector<std::int64_t>> find_extents(const ir::Graph& graph, ir::ValueId id,
                                                      const ir::Bindings& sizes) {
  if (id == ir::kNoValue || graph.at(id).kind != ir::ValueKind::kTensor) return std::nullopt;
  std::vector<std::int64_t> extents;
  for (const ir::Expr& dim : graph.at(id).tensor.dims) {
    const auto size = dim.evaluate(sizes);
    if (!size.ok()) return std::nullopt;
    extents.push_back(*size);
  }
  return extents;
}

std::vector<MatrixExtents> find_products(const ir::Graph& graph, const ir::Node& node, const ir::Bindings& sizes) {
  const std::string_view name = operator_name(node.target);
  const auto extents = [&](std::string_view argument) {
    return find_extents(graph, value_argument(node, argument), sizes);
  };
  if (name == "linear") {
    const auto weight = extents("weight");
    if (weight && weight->size() == 2) return {{(*weight)[1], (*weight)[0]}};
  } else if (name == "mm" || name == "addmm" || name == "bmm" || name == "baddbmm" || name == "matmul") {
    const auto right = extents(name == "matmul" ? "other" : name == "baddbmm" ? "batch2" : "mat2");
    if (right && right->size() >= 2) return {{(*right)[right->size() - 2], right->back()}};
  } else if (name == "conv1d" || name == "conv2d" || name == "conv3d" || name == "convolution") {
    const auto weight = extents("weight");
    const auto groups = int_argument(node, "groups", 1);
    if (!weight || weight->size() < 3 || !groups || *groups < 1) return {};
    std::int64_t inner = 1;
    for (std::size_t axis = 1; axis < weight->size(); ++axis) {
      if (__builtin_mul_overflow(inner, (*weight)[axis], &inner)) return {};
    }
    return {{inner, (*weight)[0] / *groups}};
  } else if (name == "scaled_dot_product_attention") {
    const auto key = extents("key");
    const auto value = extents("value");
    if (!key || !value || key->size() < 2 || value->size() < 2) return {};
    const std::int64_t keys = (*key)[key->size() - 2];
    return {{key->back(), keys}, {keys, value->back()}};
  }
  return {};
}

}  // namespace kpt
