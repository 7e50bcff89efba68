#include "runtime/row_targets.h"

#include <algorithm>
#include <string>
#include <vector>

namespace kpt {
namespace {

constexpr std::string_view kPointwise[] = {
    "__and__",
    "__or__",
    "abs",
    "add",
    "addcdiv",
    "addcmul",
    "alias",
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "ceil",
    "clamp",
    "clamp_max",
    "clamp_min",
    "clone",
    "contiguous",
    "cos",
    "detach",
    "div",
    "elu",
    "eq",
    "erf",
    "exp",
    "expand_as",
    "floor",
    "full_like",
    "ge",
    "gelu",
    "gt",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "le",
    "leaky_relu",
    "log",
    "logical_and",
    "logical_not",
    "logical_or",
    "lt",
    "masked_fill",
    "max.other",
    "maximum",
    "min.other",
    "minimum",
    "mish",
    "mul",
    "ne",
    "neg",
    "ones_like",
    "pow",
    "reciprocal",
    "relu",
    "relu6",
    "round",
    "rsqrt",
    "rsub",
    "sigmoid",
    "sign",
    "silu",
    "sin",
    "softplus",
    "sqrt",
    "square",
    "sub",
    "tanh",
    "to",
    "_to_copy",
    "true_divide",
    "trunc",
    "type_as",
    "where.ScalarOther",
    "where.ScalarSelf",
    "where.self",
    "zeros_like",
};

}  // namespace

bool is_pointwise(std::string_view target) {
  if (target.starts_with("aten.")) target.remove_prefix(5);
  const std::string_view base = target.substr(0, target.rfind('.'));
  const auto is = [&](std::string_view name) { return name == target || name == base; };
  const auto writes = [&](std::string_view name) {
    return base.size() == name.size() + 1 && base.starts_with(name) && base.ends_with('_');
  };
  return std::ranges::any_of(kPointwise, is) || std::ranges::any_of(kPointwise, writes);
}

bool is_written(std::string_view target) {
  const std::string_view base = target.substr(0, target.rfind('.'));
  return base.ends_with('_') && !base.ends_with("__");
}

bool mentions(const ir::Expr& expr, std::string_view symbol) {
  const std::vector<std::string> symbols = expr.symbols();
  return std::ranges::find(symbols, symbol) != symbols.end();
}

bool is_multiple(const ir::Expr& expr, std::string_view symbol) {
  if (expr.is_symbol()) return expr.name() == symbol;
  if (expr.op() != ir::ExprOp::kMul) return false;
  const auto factors = expr.operands();
  return std::ranges::count_if(factors, [&](const ir::Expr& factor) { return mentions(factor, symbol); }) == 1 &&
         std::ranges::any_of(factors,
                             [&](const ir::Expr& factor) { return factor.is_symbol() && factor.name() == symbol; });
}

namespace {

// f(n * symbol) = n * f(symbol) for n from 0 on.
bool grows_alike(const ir::Expr& expr, std::string_view symbol) {
  const auto is_constant = [](const ir::Expr& factor) { return factor.constant().has_value(); };
  const auto grows = [&](const ir::Expr& part) { return grows_alike(part, symbol); };
  switch (expr.op()) {
    case ir::ExprOp::kSymbol: return expr.name() == symbol;
    case ir::ExprOp::kConstant: return expr.constant() == 0;
    case ir::ExprOp::kAdd:
    case ir::ExprOp::kMax:
    case ir::ExprOp::kMin: return std::ranges::all_of(expr.operands(), grows);
    case ir::ExprOp::kMul: {
      const auto factors = expr.operands();
      return std::ranges::count_if(factors, is_constant) + 1 == std::ssize(factors) &&
             std::ranges::any_of(factors, grows);
    }
    default: return false;
  }
}

}  // namespace

bool holds_for_all(const ir::Expr& condition, std::string_view symbol) {
  const bool comparison = condition.op() == ir::ExprOp::kEqual || condition.op() == ir::ExprOp::kLessEqual ||
                          condition.op() == ir::ExprOp::kGreaterEqual;
  if (!comparison) return condition.op() == ir::ExprOp::kTruth && condition.is_true();
  const auto grows = [&](const ir::Expr& side) { return grows_alike(side, symbol); };
  if (!std::ranges::all_of(condition.operands(), grows)) return false;
  ir::Bindings one;
  one.set(symbol, 1);
  const auto value = condition.evaluate_value(one);
  return value.ok() && std::holds_alternative<bool>(*value) && std::get<bool>(*value);
}

}  // namespace kpt
