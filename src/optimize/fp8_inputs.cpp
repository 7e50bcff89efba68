#include "optimize/fp8_inputs.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "passes/graph_edit.h"
#include "passes/node_arguments.h"
#include "passes/own_calls.h"
#include "passes/weight_values.h"
#include "validation/layers.h"

namespace kpt {
namespace {

// Inputs of so many products are on the host at once.
constexpr std::size_t kObservedAtOnce = 16;

struct Fp8Type {
  int mantissa_bits;
  int least_exponent;  // of normal numbers
  double greatest;
};
constexpr Fp8Type kE4M3 = {3, -6, 448};
constexpr Fp8Type kE5M2 = {2, -14, 57344};

// The number of the type nearest to a finite one, ties to even.
double round_to(const Fp8Type& type, double value) {
  const double bounded = std::clamp(value, -type.greatest, type.greatest);
  if (bounded == 0) return 0;
  const double step = std::ldexp(1.0, std::max(std::ilogb(bounded), type.least_exponent) - type.mantissa_bits);
  return std::nearbyint(bounded / step) * step;
}

double finite(double value) { return std::isfinite(value) ? value : 0; }

double greatest_of(std::span<const double> values) {
  double greatest = 0;
  for (const double value : values) greatest = std::max(greatest, std::fabs(finite(value)));
  return greatest;
}

double row_error(std::span<const double> row, std::span<const double> column_squares, const Fp8Type& type,
                 double greatest) {
  const double scale = greatest / type.greatest;
  double lost = 0;
  double all = 0;
  for (std::size_t column = 0; column < row.size(); ++column) {
    const double value = finite(row[column]);
    const double off = round_to(type, value / scale) * scale - value;
    lost += off * off * column_squares[column];
    all += value * value * column_squares[column];
  }
  return all > 0 ? std::min(1.0, lost / all) : 0;
}

// One FP8 product of the candidate.
struct Product {
  std::string node;
  std::string input;  // the value's name
  std::vector<double> column_squares;
  Fp8InputError error;  // sums over rows, until all draws are seen
};

std::vector<double> sum_squares(std::span<const double> codes, std::span<const double> scales) {
  const std::size_t columns = codes.size() / scales.size();
  std::vector<double> sums(columns);
  for (std::size_t row = 0; row < scales.size(); ++row) {
    for (std::size_t column = 0; column < columns; ++column) {
      const double weight = codes[row * columns + column] * scales[row];
      sums[column] += weight * weight;
    }
  }
  return sums;
}

Result<std::vector<Product>> list_products(const ImportedModel& candidate) {
  ImportedModel copy = candidate;
  const GraphEdit edit(copy.graph, copy.weights);
  std::vector<Product> products;
  for (NodeIndex index = 0; index < edit.size(); ++index) {
    const ir::Node& node = edit.node(index);
    if (node.target != kLinearFp8Target) continue;
    const Tensor* const weight = edit.constant(value_argument(node, "weight"));
    const Tensor* const scale = edit.constant(value_argument(node, "scale"));
    if (weight == nullptr || scale == nullptr || weight->element_count() == 0) continue;
    KPT_ASSIGN_OR_RETURN(const std::vector<double> codes, read_as_double(*weight));
    KPT_ASSIGN_OR_RETURN(const std::vector<double> scales, read_as_double(*scale));
    products.push_back(
        {node.name, edit.graph().at(value_argument(node, "input")).name, sum_squares(codes, scales), {}});
  }
  return products;
}

// What the draw gives for inputs of the graph.
const Tensor* find_given(const ir::Graph& graph, const Draw& draw, std::string_view value) {
  for (const ir::GraphInput& input : graph.inputs) {
    if (input.kind != ir::InputKind::kUser || graph.at(input.value).name != value) continue;
    const auto given = std::ranges::find(draw.inputs, input.name, &NamedTensor::name);
    if (given != draw.inputs.end()) return &given->tensor;
  }
  return nullptr;
}

Status add_draw(const ImportedModel& candidate, const Gate& gate, std::size_t draw, std::span<Product> products) {
  std::set<std::string, std::less<>> names;
  for (const Product& product : products) names.insert(product.input);
  KPT_ASSIGN_OR_RETURN(const auto values, observe_values({candidate, gate.device()}, names, gate.draws(), draw));
  const bool row_scales = gate.device().device->target().capabilities().fp8_row_scales;
  for (Product& product : products) {
    const auto found = values.find(product.input);
    const Tensor* const input =
        found != values.end() ? &found->second : find_given(candidate.graph, gate.draws()[draw], product.input);
    if (input == nullptr) continue;
    KPT_ASSIGN_OR_RETURN(const std::vector<double> numbers, read_as_double(*input));
    const Fp8InputError error = measure_fp8_input(numbers, product.column_squares, row_scales);
    const auto rows = static_cast<double>(error.rows);
    product.error.e4m3 += error.e4m3 * rows;
    product.error.e5m2 += error.e5m2 * rows;
    product.error.rows += error.rows;
  }
  return {};
}

}  // namespace

Fp8InputError measure_fp8_input(std::span<const double> input, std::span<const double> column_squares,
                                bool row_scales) {
  Fp8InputError error;
  const std::size_t width = column_squares.size();
  if (width == 0) return error;
  const double of_all = row_scales ? 0 : greatest_of(input);
  for (std::size_t at = 0; at + width <= input.size(); at += width) {
    const std::span<const double> row = input.subspan(at, width);
    const double own = greatest_of(row);
    if (own == 0) continue;
    const double greatest = row_scales ? own : of_all;
    error.e4m3 += row_error(row, column_squares, kE4M3, greatest);
    error.e5m2 += row_error(row, column_squares, kE5M2, greatest);
    ++error.rows;
  }
  if (error.rows == 0) return error;
  error.e4m3 /= static_cast<double>(error.rows);
  error.e5m2 /= static_cast<double>(error.rows);
  return error;
}

Result<std::vector<std::string>> find_wide_inputs(const ImportedModel& candidate, const Gate& gate) {
  KPT_ASSIGN_OR_RETURN(std::vector<Product> products, list_products(candidate));
  for (std::size_t begin = 0; begin < products.size(); begin += kObservedAtOnce) {
    const std::span<Product> some =
        std::span(products).subspan(begin, std::min(kObservedAtOnce, products.size() - begin));
    for (std::size_t draw = 0; draw < gate.draws().size(); ++draw) {
      KPT_RETURN_IF_ERROR(add_draw(candidate, gate, draw, some));
    }
  }
  std::vector<std::string> wide;
  for (const Product& product : products) {
    if (product.error.e5m2 < product.error.e4m3) wide.push_back(product.node);
  }
  return wide;
}

}  // namespace kpt
