#include "engines/xla/stablehlo/numbers.h"

#include <cmath>
#include <functional>

#include <fmt/format.h>

namespace kpt::xla {
namespace {

using ir::ExprOp;

struct Operation {
  std::string_view target;
  ExprOp op;
};

// Those that ir::Expr knows, with Python's semantics.
constexpr Operation kOperations[] = {
    {"_operator.add", ExprOp::kAdd},           {"_operator.mul", ExprOp::kMul},
    {"_operator.floordiv", ExprOp::kFloorDiv}, {"_operator.mod", ExprOp::kMod},
    {"_operator.truediv", ExprOp::kTrueDiv},   {"_operator.eq", ExprOp::kEqual},
    {"_operator.ne", ExprOp::kNotEqual},       {"_operator.lt", ExprOp::kLess},
    {"_operator.le", ExprOp::kLessEqual},      {"_operator.gt", ExprOp::kGreater},
    {"_operator.ge", ExprOp::kGreaterEqual},   {"_operator.not_", ExprOp::kNot},
    {"_operator.lshift", ExprOp::kLeftShift},  {"_operator.rshift", ExprOp::kRightShift},
    {"math.floor", ExprOp::kFloorToInt},       {"math.ceil", ExprOp::kCeilToInt},
    {"math.trunc", ExprOp::kTruncToInt},       {"builtins.round", ExprOp::kRoundToInt},
    {"torch.sym_float", ExprOp::kToFloat},     {"torch.sym_int", ExprOp::kTruncToInt},
    {"torch.sym_max", ExprOp::kMax},           {"torch.sym_min", ExprOp::kMin},
    {"torch.sym_not", ExprOp::kNot},           {"torch.sym_ite", ExprOp::kWhere},
};

ir::Expr to_expr(const Number& number) {
  if (const auto* whole = std::get_if<std::int64_t>(&number)) return {*whole};
  if (const auto* truth = std::get_if<bool>(&number)) return ir::Expr::truth(*truth);
  return ir::Expr::floating(std::get<double>(number));
}

bool is_real(const Number& number) { return std::holds_alternative<double>(number); }

Number evaluate(ExprOp op, std::vector<ir::Expr> operands) {
  if (!ir::Expr::fits(op, operands)) throw Refusal{"its numbers are of a kind that it does not take"};
  const auto result = ir::Expr::make(op, std::move(operands)).evaluate_value({});
  if (!result.ok()) throw Refusal{result.status().message()};
  return *result;
}

// Python's &, | and ^; of two truth values a truth value.
std::optional<Number> run_bits(std::string_view target, const Number& x, const Number& y) {
  const bool conjunction = target == "_operator.and_";
  const bool either = target == "_operator.or_";
  if (!conjunction && !either && target != "_operator.xor") return std::nullopt;
  if (is_real(x) || is_real(y)) throw Refusal{"its numbers are of a kind that it does not take"};
  const std::int64_t a = as_int(x);
  const std::int64_t b = as_int(y);
  const std::int64_t bits = conjunction ? a & b : either ? a | b : a ^ b;
  if (std::holds_alternative<bool>(x) && std::holds_alternative<bool>(y)) return bits != 0;
  return bits;
}

// Those that Expr does not have, or has for integers only.
std::optional<Number> run_other(std::string_view target, std::span<const Number> x) {
  const bool two = x.size() == 2;
  if (target == "_operator.sub" && two) {
    if (is_real(x[0]) || is_real(x[1])) return as_double(x[0]) - as_double(x[1]);
    return evaluate(ExprOp::kAdd, {as_int(x[0]), ir::Expr::make(ExprOp::kMul, {as_int(x[1]), std::int64_t{-1}})});
  }
  if (target == "_operator.pow" && two) {
    if (is_real(x[0]) || is_real(x[1]) || as_int(x[1]) < 0) return std::pow(as_double(x[0]), as_double(x[1]));
    return evaluate(ExprOp::kPow, {as_int(x[0]), as_int(x[1])});
  }
  if (two) return run_bits(target, x[0], x[1]);
  if (x.size() != 1) return std::nullopt;
  if (target == "_operator.neg") {
    if (is_real(x[0])) return -as_double(x[0]);
    return evaluate(ExprOp::kMul, {as_int(x[0]), std::int64_t{-1}});
  }
  if (target == "_operator.pos") return x[0];
  if (target == "_operator.abs") {
    if (is_real(x[0])) return std::fabs(as_double(x[0]));
    return evaluate(ExprOp::kMax, {as_int(x[0]), ir::Expr::make(ExprOp::kMul, {as_int(x[0]), std::int64_t{-1}})});
  }
  if (target == "torch._sym_sqrt") return std::sqrt(as_double(x[0]));
  if (target == "builtins.bool") return as_double(x[0]) != 0;
  return std::nullopt;
}

}  // namespace

std::int64_t Numbers::evaluate(const ir::Expr& expression) const {
  const auto value = expression.evaluate(sizes_);
  if (!value.ok()) throw Refusal{value.status().message()};
  return *value;
}

Extents Numbers::evaluate(const std::vector<ir::Expr>& expressions) const {
  Extents dims;
  for (const ir::Expr& expression : expressions) dims.push_back(evaluate(expression));
  return dims;
}

std::optional<Number> Numbers::find(ir::ValueId id) const {
  if (known_[ir::index_of(id)]) return known_[ir::index_of(id)];
  if (graph_.at(id).kind != ir::ValueKind::kInt) return std::nullopt;
  const auto value = graph_.at(id).expression.evaluate(sizes_);
  return value.ok() ? std::optional<Number>(*value) : std::nullopt;
}

Number Numbers::operand(const ir::Argument& argument) const {
  if (const ir::ValueId* id = argument.value_id()) {
    const auto known = find(*id);
    if (!known) throw Refusal{fmt::format("the number %{} is not known before the run", graph_.at(*id).name)};
    return *known;
  }
  if (const auto* whole = std::get_if<std::int64_t>(&argument.value)) return *whole;
  if (const auto* real = std::get_if<double>(&argument.value)) return *real;
  if (const auto* truth = std::get_if<bool>(&argument.value)) return *truth;
  throw Refusal{"it computes with something that is no number"};
}

bool Numbers::run_node(const ir::Node& node) {
  if (node.outputs.size() != 1 || node.outputs[0].is_list) return false;
  const ir::ValueId result = node.outputs[0].values[0];
  if (result == ir::kNoValue || graph_.at(result).kind == ir::ValueKind::kTensor) return false;
  if (graph_.at(result).kind == ir::ValueKind::kInt && find(result)) return true;
  std::vector<Number> operands;
  if (node.target.starts_with("aten.")) return false;
  for (const ir::NamedArgument& argument : node.arguments) operands.push_back(operand(argument.value));
  auto value = run_other(node.target, operands);
  for (const Operation& operation : kOperations) {
    if (value || operation.target != node.target) continue;
    std::vector<ir::Expr> expressions;
    for (const Number& number : operands) expressions.push_back(to_expr(number));
    value = xla::evaluate(operation.op, std::move(expressions));
  }
  if (!value) return false;
  known_[ir::index_of(result)] = *value;
  return true;
}

}  // namespace kpt::xla
