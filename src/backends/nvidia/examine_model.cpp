#include "backends/nvidia/examine_model.h"

#include <algorithm>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "ir/figures.h"
#include "passes/matrix_extents.h"
#include "passes/node_arguments.h"

namespace kpt {
namespace {

// What one thread reads at a time; cuBLAS and cuDNN choose other kernels where rows begin in between.
constexpr std::int64_t kAccessBytes = 16;

struct ProductNode {
  const ir::Node* node = nullptr;
  DType dtype = DType::kFloat32;
  std::vector<MatrixExtents> matrices;
  double flops = 0;
};

// Of a convolution the channels lie side by side, not a filter's elements.
std::vector<MatrixExtents> find_rows(const ir::Graph& graph, const ir::Node& node, const ir::Bindings& sizes) {
  std::vector<MatrixExtents> products = find_products(graph, node, sizes);
  if (products.empty() || !operator_name(node.target).starts_with("conv")) return products;
  const auto weight = find_extents(graph, value_argument(node, "weight"), sizes);
  if (!weight || weight->size() < 2) return {};
  if ((*weight)[1] == 1) return {};  // each channel by itself: no matrices are multiplied
  return {{(*weight)[1], (*weight)[0]}};
}

std::vector<ProductNode> list_products(const ir::Graph& graph, const ir::Bindings& sizes) {
  std::vector<ProductNode> products;
  for (const ir::Node& node : graph.nodes) {
    std::vector<MatrixExtents> matrices = find_rows(graph, node, sizes);
    if (matrices.empty() || node.outputs.empty() || node.outputs[0].values.empty()) continue;
    const ir::Value& result = graph.at(node.outputs[0].values[0]);
    if (result.kind != ir::ValueKind::kTensor) continue;
    products.push_back(
        {&node, result.tensor.dtype, std::move(matrices), ir::count_node(graph, node, sizes).flops.value_or(0)});
  }
  std::ranges::stable_sort(products, std::ranges::greater(), &ProductNode::flops);
  return products;
}

bool has(const NvidiaArchitecture& architecture, Precision precision) {
  return std::ranges::find(architecture.matrix_precisions, precision) != architecture.matrix_precisions.end();
}

// Why products of a type are slow there and what helps; empty where the matrix units take it.
std::string cost_of(DType dtype, const NvidiaArchitecture& architecture) {
  const bool half = has(architecture, Precision::kFp16);
  const bool brain = has(architecture, Precision::kBf16);
  if (dtype == DType::kFloat64 && !has(architecture, Precision::kFp64)) return "its matrix units take no float64";
  if (dtype == DType::kBFloat16 && !brain) {
    return half ? "its matrix units take float16, not bfloat16" : "it has no matrix units";
  }
  if (dtype == DType::kFloat16 && !half) return "it has no matrix units";
  if (dtype != DType::kFloat32 || !brain) return "";
  return has(architecture, Precision::kTf32)
             ? "its matrix units take no float32: kpt optimize --level balanced makes products bfloat16 where the gate "
               "allows it, nvidia.tf32 computes them in TF32"
             : "its matrix units take no float32: kpt optimize --level balanced makes products bfloat16";
}

std::string percent(double part) { return fmt::format("{:.{}f} %", 100 * part, part < 0.1 ? 1 : 0); }

void find_types(const std::vector<ProductNode>& products, const NvidiaArchitecture& architecture, double total,
                std::vector<ModelFinding>& findings) {
  struct Use {
    std::size_t count = 0;
    double flops = 0;
  };
  std::map<DType, Use> uses;
  for (const ProductNode& product : products) {
    Use& use = uses[product.dtype];
    ++use.count;
    use.flops += product.flops;
  }
  for (const auto& [dtype, use] : uses) {
    const std::string cost = cost_of(dtype, architecture);
    if (cost.empty()) continue;
    findings.push_back(
        {FindingKind::kElementType, false, std::string(to_string(dtype)),
         fmt::format("{} product{} in {}, {} of the model's work: {}", use.count, use.count == 1 ? " is" : "s are",
                     to_string(dtype), percent(total > 0 ? use.flops / total : 0), cost)});
  }
}

void find_unaligned(const std::vector<ProductNode>& products, double total, std::vector<ModelFinding>& findings) {
  for (const ProductNode& product : products) {
    const auto bytes = static_cast<std::int64_t>(element_bytes(product.dtype));
    const std::int64_t step = kAccessBytes / std::max<std::int64_t>(1, std::min(bytes, kAccessBytes));
    const auto is_odd = [step](const MatrixExtents& matrix) {
      return matrix.inner % step != 0 || matrix.columns % step != 0;
    };
    const auto odd = std::ranges::find_if(product.matrices, is_odd);
    if (odd == product.matrices.end()) continue;
    findings.push_back(
        {FindingKind::kMatrixUnit, false, product.node->name,
         fmt::format(
             "{} multiplies by a matrix of {} x {} in {}, whose rows are no whole {} bytes, in {} of the model's "
             "work; multiples of {} are",
             product.node->target, odd->inner, odd->columns, to_string(product.dtype), kAccessBytes,
             percent(total > 0 ? product.flops / total : 0), step)});
  }
}

}  // namespace

std::vector<ModelFinding> examine_model(const ir::Graph& graph, const ir::Bindings& sizes,
                                        const NvidiaArchitecture& architecture) {
  std::vector<ModelFinding> findings;
  const std::vector<ProductNode> products = list_products(graph, sizes);
  const double total = ir::count_figures(graph, sizes).flops;
  find_types(products, architecture, total, findings);
  find_unaligned(products, total, findings);
  return findings;
}

}  // namespace kpt
