#include "cli/commands/compile_estimate.h"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <variant>
#include <vector>

#include "ir/figures.h"
#include "ir/scaled_product.h"
#include "passes/node_arguments.h"
#include "passes/own_calls.h"

namespace kpt::cli {
namespace {

bool multiplies_float32(const ir::Graph& graph, const ir::Node& node) {
  if (is_quantized_product(node.target)) return false;
  bool all = true;
  const auto look = [&](ir::ValueId id) {
    if (id == ir::kNoValue || graph.at(id).kind != ir::ValueKind::kTensor) return;
    const DType dtype = graph.at(id).tensor.dtype;
    if (is_floating(dtype) && dtype != DType::kFloat32) all = false;
  };
  for (const ir::NamedArgument& argument : node.arguments) ir::for_each_value(argument.value, look);
  look(result_at(node, 0));
  return all;
}

// Of a convolution's outputs, the part whose windows lie within the input: what falls on padding need not be computed.
double inner_part(const ir::Graph& graph, const ir::Node& node, const ir::Bindings& sizes) {
  const auto padding = ints_argument(node, "padding", std::vector<std::int64_t>{0});
  const ir::ValueId weight = value_argument(node, "weight");
  const ir::ValueId result = result_at(node, 0);
  if (!padding || padding->empty() || weight == ir::kNoValue || result == ir::kNoValue) return 0;
  if (operator_name(node.target).find("transpose") != std::string_view::npos) return 0;
  if (bool_argument(node, "transposed", false).value_or(true)) return 0;
  const std::size_t rank = graph.at(weight).tensor.dims.size();  // of them two are channels
  const auto& dims = graph.at(result).tensor.dims;
  if (rank < 3 || dims.size() + 2 < rank) return 0;
  // At each border at most as many outputs as it has padding, whatever the stride.
  const std::int64_t border = *std::ranges::max_element(*padding);
  double part = 1;
  for (std::size_t axis = dims.size() + 2 - rank; axis < dims.size(); ++axis) {
    const auto size = dims[axis].evaluate(sizes);
    if (!size.ok() || *size <= 0) return 0;
    part *= static_cast<double>(std::max<std::int64_t>(0, *size - 2 * border)) / static_cast<double>(*size);
  }
  return part;
}

// In branches and loops, too: that one may run is enough for its rate.
bool multiplies_eight_bits(const ir::Graph& graph) {
  return std::ranges::any_of(graph.nodes, [](const ir::Node& node) {
    if (is_quantized_product(node.target) || node.target == ir::kScaledProductTarget) return true;
    return std::ranges::any_of(node.arguments, [](const ir::NamedArgument& argument) {
      const auto* const inner = std::get_if<ir::Subgraph>(&argument.value.value);
      return inner != nullptr && inner->graph != nullptr && multiplies_eight_bits(*inner->graph);
    });
  });
}

double count_float32_products(const ir::Graph& graph, const ir::Bindings& sizes) {
  double flops = 0;
  for (const ir::Node& node : graph.nodes) {
    const ir::NodeFigures counted = ir::count_node(graph, node, sizes);
    const bool convolves = counted.kind == "convolution";
    if (!convolves && counted.kind != "matmul" && counted.kind != "attention") continue;
    if (!counted.flops || !multiplies_float32(graph, node)) continue;
    flops += *counted.flops * (convolves ? inner_part(graph, node, sizes) : 1);
  }
  return flops;
}

}  // namespace

CompileFigures with_counts(CompileFigures figures, const ir::Graph& graph, const ir::Bindings& sizes) {
  if (figures.flops || figures.bytes_accessed || sizes.entries().size() != graph.symbols.size()) return figures;
  double bytes = 0;
  for (const ir::Node& node : graph.nodes) {
    const ir::NodeFigures counted = ir::count_node(graph, node, sizes);
    if (counted.kind == "control" || !counted.bytes) return figures;
    bytes += *counted.bytes;
  }
  figures.flops = ir::count_figures(graph, sizes).flops;
  figures.bytes_accessed = bytes;
  return figures;
}

HardwareRates rates_for(const ir::Graph& graph, const ir::Bindings& sizes, const CompileFigures& figures,
                        HardwareRates rates) {
  if (rates.narrow_flops_per_second > 0 && multiplies_eight_bits(graph)) {
    rates.matrix_flops_per_second = rates.narrow_flops_per_second;
  }
  const double flops = figures.flops.value_or(0);
  if (flops <= 0 || rates.wide_flops_per_second <= 0 || rates.matrix_flops_per_second <= 0) return rates;
  const double wide = std::min(flops, count_float32_products(graph, sizes));
  rates.matrix_flops_per_second =
      flops / ((flops - wide) / rates.matrix_flops_per_second + wide / rates.wide_flops_per_second);
  return rates;
}

}  // namespace kpt::cli
