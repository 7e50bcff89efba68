#include "device/graph_arguments.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <set>
#include <string_view>

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

namespace {

bool mentions(const ir::Expr& expression, std::string_view symbol) {
  if (expression.is_symbol()) return expression.name() == symbol;
  return std::ranges::any_of(expression.operands(), [&](const ir::Expr& part) { return mentions(part, symbol); });
}

// a * symbol + b, for any a and b that do not have it.
bool is_linear(const ir::Expr& expression, std::string_view symbol) {
  if (expression.op() == ir::ExprOp::kOpaque) return false;
  if (!mentions(expression, symbol) || expression.is_symbol()) return true;
  const auto parts = expression.operands();
  const auto those = std::ranges::count_if(parts, [&](const ir::Expr& part) { return mentions(part, symbol); });
  const bool fits = expression.op() == ir::ExprOp::kAdd || (expression.op() == ir::ExprOp::kMul && those == 1);
  return fits && std::ranges::all_of(parts, [&](const ir::Expr& part) { return is_linear(part, symbol); });
}

void find_unknown(const ir::Expr& expression, const std::function<bool(std::string_view)>& is_known,
                  std::set<std::string_view>& unknown) {
  if (expression.is_symbol() && !is_known(expression.name())) unknown.insert(expression.name());
  for (const ir::Expr& part : expression.operands()) find_unknown(part, is_known, unknown);
}

// The one symbol of an extent like 2*s0 + 1 that is not known yet, where the extent shows it; empty otherwise. Its text
// is the graph's.
std::string_view find_solvable(const ir::Expr& extent, const std::function<bool(std::string_view)>& is_known) {
  if (extent.constant() || extent.is_symbol()) return {};
  std::set<std::string_view> unknown;
  find_unknown(extent, is_known, unknown);
  return unknown.size() == 1 && is_linear(extent, *unknown.begin()) ? *unknown.begin() : std::string_view();
}

// What is called is given the position among the user's inputs, the axis and its extent.
Status for_each_extent(const ir::Graph& graph,
                       const std::function<Status(std::size_t, std::size_t, const ir::Expr&)>& visit) {
  std::size_t position = 0;
  for (const ir::GraphInput& input : graph.inputs) {
    if (input.kind != ir::InputKind::kUser) continue;
    const std::size_t own = position++;
    if (input.value == ir::kNoValue || graph.at(input.value).kind != ir::ValueKind::kTensor) continue;
    const auto& dims = graph.at(input.value).tensor.dims;
    for (std::size_t axis = 0; axis < dims.size(); ++axis) KPT_RETURN_IF_ERROR(visit(own, axis, dims[axis]));
  }
  return {};
}

Result<std::int64_t> solve(const ir::Expr& extent, std::string_view symbol, ir::Bindings sizes, std::int64_t given) {
  sizes.set(symbol, 0);
  KPT_ASSIGN_OR_RETURN(const std::int64_t offset, extent.evaluate(sizes));
  sizes.set(symbol, 1);
  KPT_ASSIGN_OR_RETURN(std::int64_t factor, extent.evaluate(sizes));
  std::int64_t rest = 0;
  const bool overflows =
      __builtin_sub_overflow(factor, offset, &factor) || __builtin_sub_overflow(given, offset, &rest);
  if (overflows || factor == 0 || rest == std::numeric_limits<std::int64_t>::min() || rest % factor != 0) {
    return Status(StatusCode::kInvalidArgument,
                  fmt::format("{} is not {} for any {}", given, extent.to_string(), symbol));
  }
  return rest / factor;
}

}  // namespace

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
  const auto is_known = [&](std::string_view symbol) { return shown.contains(symbol); };
  for (std::optional<std::size_t> before; before != shown.size();) {
    before = shown.size();
    static_cast<void>(for_each_extent(graph, [&](std::size_t, std::size_t, const ir::Expr& extent) -> Status {
      if (const auto symbol = find_solvable(extent, is_known); !symbol.empty()) shown.emplace(symbol);
      return {};
    }));
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
  const auto is_known = [&](std::string_view symbol) { return sizes.find(symbol).has_value(); };
  for (std::optional<std::size_t> before; before != sizes.entries().size();) {
    before = sizes.entries().size();
    KPT_RETURN_IF_ERROR(
        for_each_extent(graph, [&](std::size_t input, std::size_t axis, const ir::Expr& extent) -> Status {
          const std::string_view symbol = find_solvable(extent, is_known);
          if (symbol.empty() || axis >= inputs[input].dims().size()) return {};
          const auto value = solve(extent, symbol, sizes, inputs[input].dims()[axis]);
          if (!value.ok()) {
            return {value.status().code(),
                    fmt::format("size {} of input {}: {}", axis, input, value.status().message())};
          }
          sizes.set(symbol, *value);
          return {};
        }));
  }
  return {};
}

}  // namespace kpt
