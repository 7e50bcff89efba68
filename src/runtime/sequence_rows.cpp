#include "runtime/sequence_rows.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "passes/promote_to_fp64.h"
#include "runtime/row_targets.h"
#include "runtime/sequence_check.h"

namespace kpt {
namespace {

// Symbols that are an extent of an input other than its first, which is a batch.
std::vector<std::string> find_symbols(const ir::Graph& graph) {
  std::vector<std::string> symbols;
  for (const ir::GraphInput& input : graph.inputs) {
    if (input.kind != ir::InputKind::kUser || graph.at(input.value).kind != ir::ValueKind::kTensor) continue;
    const std::vector<ir::Expr>& dims = graph.at(input.value).tensor.dims;
    for (std::size_t axis = 1; axis < dims.size(); ++axis) {
      if (!dims[axis].is_symbol()) continue;
      std::string symbol(dims[axis].name());
      if (std::ranges::find(symbols, symbol) == symbols.end()) symbols.push_back(std::move(symbol));
    }
  }
  return symbols;
}

// Whether inputs and outputs can be padded and cut along it: it is an extent of theirs, or not in them.
Status check_ends(const ir::Graph& graph, const std::string& symbol) {
  const auto is_plain = [&](const ir::Value& value) {
    if (value.kind != ir::ValueKind::kTensor) return !mentions(value.expression, symbol);
    return std::ranges::all_of(value.tensor.dims,
                               [&](const ir::Expr& dim) { return dim.is_symbol() || !mentions(dim, symbol); });
  };
  for (const ir::GraphInput& input : graph.inputs) {
    if (input.value == ir::kNoValue || is_plain(graph.at(input.value))) continue;
    return {StatusCode::kUnsupported, fmt::format("input '{}' has an extent that {} is a part of", input.name, symbol)};
  }
  for (const ir::GraphOutput& output : graph.outputs) {
    if (output.kind != ir::OutputKind::kUser) {
      return {StatusCode::kUnsupported, fmt::format("the model writes '{}'", output.name)};
    }
    const ir::ValueId* id = output.value.value_id();
    if (id == nullptr || (graph.at(*id).kind == ir::ValueKind::kTensor && is_plain(graph.at(*id)))) continue;
    return {StatusCode::kUnsupported, fmt::format("output '{}' is not cut along {}", output.name, symbol)};
  }
  return {};
}

Result<SequenceRows> check_symbol(const ir::Graph& graph, const std::string& symbol, const WeightNumbers& numbers) {
  SequenceRows found;
  found.symbol = symbol;
  const auto range = std::ranges::find(graph.symbols, symbol, &ir::SymbolRange::name);
  if (range != graph.symbols.end() && range->min) found.least = std::max<std::int64_t>(*range->min, 1);
  if (range != graph.symbols.end() && range->max) found.most = *range->max;
  KPT_RETURN_IF_ERROR(check_ends(graph, symbol));
  for (const bool masked : {false, true}) {
    found.masked = masked;
    detail::SequenceCheck sequence(graph, symbol, found.least, masked, numbers);
    const Status status = sequence.check();
    if (status.ok()) {
      found.most = std::min(found.most, sequence.most());
      return found;
    }
    if (masked) return status;  // with more known of the inputs it came further
  }
  return found;
}

std::optional<double> read_number(const Tensor& tensor) {
  if (!tensor.dims().empty() || tensor.device() != "cpu") return std::nullopt;
  if (tensor.dtype() == DType::kBool) return tensor.elements<std::uint8_t>()[0] != 0 ? 1.0 : 0.0;
  if (!is_floating(tensor.dtype())) return std::nullopt;
  const auto wide = promote_to_fp64(tensor);
  return wide.ok() ? std::optional(wide->elements<double>()[0]) : std::nullopt;
}

}  // namespace

WeightNumbers read_weight_numbers(const Weights& weights) {
  WeightNumbers numbers;
  for (const auto& [name, tensor] : weights) {
    const auto number = read_number(tensor);
    if (number && (*number == 0 || *number == 1 || std::isinf(*number))) numbers.emplace(name, *number);
  }
  return numbers;
}

Result<SequenceRows> find_sequence_rows(const ir::Graph& graph, const WeightNumbers& numbers) {
  Status first;
  for (const std::string& symbol : find_symbols(graph)) {
    auto found = check_symbol(graph, symbol, numbers);
    if (found.ok()) return found;
    if (first.ok()) first = found.status();
  }
  if (!first.ok()) return first;
  return Status(StatusCode::kUnsupported, "no input has an extent behind its first that may vary");
}

}  // namespace kpt
