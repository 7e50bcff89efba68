#include "benchmark/sweep.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"

namespace kpt {
namespace {

Status invalid(std::string message) { return {StatusCode::kInvalidArgument, std::move(message)}; }

Status check_value(const ir::Graph& graph, std::string_view symbol, std::int64_t value) {
  const auto range =
      std::ranges::find_if(graph.symbols, [&](const ir::SymbolRange& other) { return other.name == symbol; });
  if (range == graph.symbols.end()) {
    std::vector<std::string> names;
    for (const ir::SymbolRange& other : graph.symbols) names.push_back(other.name);
    return invalid(fmt::format("the model has no symbol '{}'; {}", symbol,
                               names.empty() ? "all its sizes are fixed" : "it has " + join(names, ", ")));
  }
  if (range->min.value_or(value) <= value && value <= range->max.value_or(value)) return {};
  return invalid(fmt::format("size {} of symbol '{}' is outside {} to {}", value, symbol, range->min.value_or(0),
                             range->max ? std::to_string(*range->max) : "any"));
}

}  // namespace

Result<std::vector<std::int64_t>> parse_values(std::string_view text) {
  std::vector<std::int64_t> values;
  for (const std::string_view part : split(text, ',')) {
    const auto value = parse_int(trim(part));
    if (!value || *value < 1)
      return invalid(fmt::format("'{}' is no list of sizes such as 1,2,4", printable(text, 80)));
    if (std::ranges::find(values, *value) != values.end()) {
      return invalid(fmt::format("{} stands twice in '{}'", *value, printable(text, 80)));
    }
    values.push_back(*value);
  }
  if (values.empty()) return invalid("a list of sizes is empty; write it as 1,2,4");
  return values;
}

Result<SweepAxis> parse_sweep(std::string_view text) {
  const auto equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    return invalid(fmt::format("'{}' is no sweep; write it as symbol=1,2,4", printable(text, 80)));
  }
  KPT_ASSIGN_OR_RETURN(std::vector<std::int64_t> values, parse_values(text.substr(equals + 1)));
  return SweepAxis{std::string(text.substr(0, equals)), std::move(values)};
}

Result<std::string> find_batch_symbol(const ir::Graph& graph) {
  std::vector<std::string> found;
  for (const ir::GraphInput& input : graph.inputs) {
    if (input.kind != ir::InputKind::kUser) continue;
    const ir::Value& value = graph.at(input.value);
    if (value.kind != ir::ValueKind::kTensor || value.tensor.dims.empty()) continue;
    const ir::Expr& first = value.tensor.dims[0];
    if (!first.is_symbol()) continue;
    if (std::ranges::find(found, first.name()) == found.end()) found.emplace_back(first.name());
  }
  if (found.size() == 1) return found[0];
  if (found.empty()) return invalid("no input's first extent varies, so the batch is fixed; export it as dynamic");
  return invalid(
      fmt::format("several symbols are the first extent of an input ({}); name one with --sweep", join(found, ", ")));
}

Result<std::vector<Sizes>> plan_sweep(const ir::Graph& graph, const Sizes& fixed, std::span<const SweepAxis> axes) {
  for (const auto& [symbol, value] : fixed) KPT_RETURN_IF_ERROR(check_value(graph, symbol, value));
  std::vector<Sizes> points = {fixed};
  for (const SweepAxis& axis : axes) {
    if (points[0].contains(axis.symbol)) return invalid(fmt::format("symbol '{}' is given twice", axis.symbol));
    if (points.size() * axis.values.size() > kMaxSweepPoints) {
      return invalid(fmt::format("the sweeps give more than {} combinations", kMaxSweepPoints));
    }
    std::vector<Sizes> extended;
    for (const Sizes& point : points) {
      for (const std::int64_t value : axis.values) {
        KPT_RETURN_IF_ERROR(check_value(graph, axis.symbol, value));
        extended.push_back(point);
        extended.back()[axis.symbol] = value;
      }
    }
    points = std::move(extended);
  }
  return points;
}

std::int64_t count_items(std::span<const NamedTensor> inputs) {
  for (const NamedTensor& input : inputs) {
    if (!input.tensor.dims().empty()) return input.tensor.dims()[0];
  }
  return 1;
}

std::string describe_sizes(const Sizes& sizes, std::string_view batch_symbol) {
  std::vector<std::string> parts;
  for (const auto& [symbol, value] : sizes) {
    const bool is_batch = !batch_symbol.empty() && symbol == batch_symbol;
    const std::string part = fmt::format("{} {}", is_batch ? "batch" : symbol, value);
    parts.insert(is_batch ? parts.begin() : parts.end(), part);
  }
  return join(parts, ", ");
}

}  // namespace kpt
