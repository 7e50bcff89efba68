#include "ir/scaled_product.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>

namespace kpt::ir {
namespace {

Status unsupported(std::string clause) { return {StatusCode::kUnsupported, std::move(clause)}; }

const Argument* find_argument(const Node& node, std::string_view name) {
  const auto found = std::ranges::find(node.arguments, name, &NamedArgument::name);
  const bool given = found != node.arguments.end() && !std::holds_alternative<None>(found->value.value);
  return given ? &found->value : nullptr;
}

Result<ValueId> read_tensor(const Graph& graph, const Node& node, std::string_view name) {
  const Argument* argument = find_argument(node, name);
  const ValueId* id = argument == nullptr ? nullptr : argument->value_id();
  if (id == nullptr || graph.at(*id).kind != ValueKind::kTensor) {
    return unsupported(fmt::format("its argument '{}' is no tensor", name));
  }
  return *id;
}

bool is_fp8(DType dtype) {
  return dtype == DType::kFloat8E4M3FN || dtype == DType::kFloat8E5M2 || dtype == DType::kFloat8E4M3FNUZ ||
         dtype == DType::kFloat8E5M2FNUZ;
}

Result<ValueId> read_matrix(const Graph& graph, const Node& node, std::string_view name) {
  KPT_ASSIGN_OR_RETURN(const ValueId id, read_tensor(graph, node, name));
  const TensorType& type = graph.at(id).tensor;
  if (!is_fp8(type.dtype)) {
    return unsupported(fmt::format("its argument '{}' is {}, not FP8", name, to_string(type.dtype)));
  }
  if (type.dims.size() != 2) return unsupported(fmt::format("its argument '{}' is no matrix", name));
  return id;
}

struct ScaleForm {
  std::string_view name;
  Expr rows;
  Expr columns;
  std::string_view each;
};

Result<ValueId> read_scale(const Graph& graph, const Node& node, const ScaleForm& form) {
  KPT_ASSIGN_OR_RETURN(const ValueId id, read_tensor(graph, node, form.name));
  const TensorType& type = graph.at(id).tensor;
  if (type.dtype != DType::kFloat32) {
    return unsupported(fmt::format("its argument '{}' is {}, not float32", form.name, to_string(type.dtype)));
  }
  const bool one = type.dims.size() <= 2 && std::ranges::all_of(type.dims, [](const Expr& dim) { return dim == 1; });
  const bool along = type.dims.size() == 2 && type.dims[0] == form.rows && type.dims[1] == form.columns;
  if (!one && !along) {
    return unsupported(fmt::format("its argument '{}' is neither one scale nor one for each {}", form.name, form.each));
  }
  return id;
}

}  // namespace

Result<ScaledProduct> read_scaled_product(const Graph& graph, const Node& node) {
  ScaledProduct product;
  KPT_ASSIGN_OR_RETURN(product.self, read_matrix(graph, node, "self"));
  KPT_ASSIGN_OR_RETURN(product.mat2, read_matrix(graph, node, "mat2"));
  const Expr& rows = graph.at(product.self).tensor.dims[0];
  const Expr& columns = graph.at(product.mat2).tensor.dims[1];
  KPT_ASSIGN_OR_RETURN(product.scale_a, read_scale(graph, node, {"scale_a", rows, 1, "row"}));
  KPT_ASSIGN_OR_RETURN(product.scale_b, read_scale(graph, node, {"scale_b", 1, columns, "column"}));
  if (find_argument(node, "bias") != nullptr) {
    KPT_ASSIGN_OR_RETURN(product.bias, read_tensor(graph, node, "bias"));
    const TensorType& type = graph.at(product.bias).tensor;
    if (!is_floating(type.dtype) || type.dims.size() != 1)
      return unsupported("its argument 'bias' is no row of floats");
  }
  if (find_argument(node, "scale_result") != nullptr) return unsupported("its result has a scale");
  if (node.outputs.size() != 1 || node.outputs[0].is_list || node.outputs[0].values[0] == kNoValue) {
    return unsupported("it does not have one result");
  }
  product.result = node.outputs[0].values[0];
  return product;
}

}  // namespace kpt::ir
