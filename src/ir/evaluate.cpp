// Expr::evaluate and Expr::evaluate_value. The depth of an Expr is bounded, so recursion is too.
#include <cmath>
#include <compare>
#include <string>
#include <utility>

#include "base/text.h"
#include "ir/arithmetic.h"
#include "ir/symbolic.h"

namespace kpt::ir {
namespace {

constexpr std::size_t kShownBytes = 200;  // of an expression in a message

bool is_number(const SymValue& value) { return !std::holds_alternative<bool>(value); }

double as_double(const SymValue& value) {
  if (const double* real = std::get_if<double>(&value)) return *real;
  return static_cast<double>(std::get<std::int64_t>(value));
}

std::partial_ordering reverse(std::partial_ordering order) {
  if (order == std::partial_ordering::less) return std::partial_ordering::greater;
  if (order == std::partial_ordering::greater) return std::partial_ordering::less;
  return order;
}

std::partial_ordering compare_numbers(const SymValue& a, const SymValue& b) {
  const auto* left = std::get_if<std::int64_t>(&a);
  const auto* right = std::get_if<std::int64_t>(&b);
  if (left != nullptr && right != nullptr) return *left <=> *right;
  if (left != nullptr) return compare(*left, std::get<double>(b));
  if (right != nullptr) return reverse(compare(*right, std::get<double>(a)));
  return std::get<double>(a) <=> std::get<double>(b);
}

// One evaluation. Each step answers whether it went well; the first failure is kept.
class Evaluation {
 public:
  explicit Evaluation(const Bindings& bindings) : bindings_(bindings) {}

  bool run(const Expr& expr, SymValue& result);
  Status take_failure() { return std::move(failure_); }

 private:
  bool fail(StatusCode code, const Expr& expr, std::string_view reason) {
    failure_ = Status(
        code, "the size '" + printable(expr.to_string(), kShownBytes) + "' cannot be computed: " + std::string(reason));
    return false;
  }
  bool fail(const Expr& expr, std::string_view reason) { return fail(StatusCode::kInvalidArgument, expr, reason); }

  bool run_number(const Expr& expr, SymValue& result) {
    if (!run(expr, result)) return false;
    return is_number(result) || fail(expr, "a truth value stands where a number is needed");
  }
  bool run_integer(const Expr& expr, std::int64_t& result) {
    SymValue value;
    if (!run_number(expr, value)) return false;
    if (const auto* integer = std::get_if<std::int64_t>(&value)) {
      result = *integer;
      return true;
    }
    return fail(expr, "it is not an integer");
  }
  bool run_truth(const Expr& expr, bool& result) {
    SymValue value;
    if (!run(expr, value)) return false;
    if (const bool* truth = std::get_if<bool>(&value)) {
      result = *truth;
      return true;
    }
    return fail(expr, "a number stands where a truth value is needed");
  }

  bool run_sum_or_product(const Expr& expr, SymValue& result);
  bool run_extreme(const Expr& expr, SymValue& result);
  bool run_integers(const Expr& expr, SymValue& result);
  bool run_power(const Expr& expr, SymValue& result);
  bool run_true_division(const Expr& expr, SymValue& result);
  bool run_rounding(const Expr& expr, SymValue& result);
  bool run_comparison(const Expr& expr, SymValue& result);
  bool run_logic(const Expr& expr, SymValue& result);

  const Bindings& bindings_;
  Status failure_;
};

bool Evaluation::run(const Expr& expr, SymValue& result) {
  switch (expr.op()) {
    case ExprOp::kConstant: result = *expr.constant(); return true;
    case ExprOp::kFloat: result = expr.real(); return true;
    case ExprOp::kTruth: result = expr.is_true(); return true;
    case ExprOp::kSymbol: {
      const auto bound = bindings_.find(expr.name());
      if (!bound) return fail(expr, "the symbol '" + std::string(expr.name()) + "' has no value");
      result = *bound;
      return true;
    }
    case ExprOp::kAdd:
    case ExprOp::kMul: return run_sum_or_product(expr, result);
    case ExprOp::kMax:
    case ExprOp::kMin: return run_extreme(expr, result);
    case ExprOp::kFloorDiv:
    case ExprOp::kMod:
    case ExprOp::kModularIndexing:
    case ExprOp::kLeftShift:
    case ExprOp::kRightShift: return run_integers(expr, result);
    case ExprOp::kPow: return run_power(expr, result);
    case ExprOp::kTrueDiv: return run_true_division(expr, result);
    case ExprOp::kToFloat:
      if (!run_number(expr.operands()[0], result)) return false;
      result = as_double(result);
      return true;
    case ExprOp::kFloorToInt:
    case ExprOp::kCeilToInt:
    case ExprOp::kTruncToInt:
    case ExprOp::kRoundToInt: return run_rounding(expr, result);
    case ExprOp::kEqual:
    case ExprOp::kNotEqual:
    case ExprOp::kLess:
    case ExprOp::kLessEqual:
    case ExprOp::kGreater:
    case ExprOp::kGreaterEqual: return run_comparison(expr, result);
    case ExprOp::kWhere:
    case ExprOp::kAnd:
    case ExprOp::kOr:
    case ExprOp::kNot: return run_logic(expr, result);
    case ExprOp::kOpaque: return fail(StatusCode::kUnsupported, expr, "it is of a kind that is not known here");
  }
  return fail(StatusCode::kInternal, expr, "its operation is not valid");
}

bool Evaluation::run_sum_or_product(const Expr& expr, SymValue& result) {
  const bool sum = expr.op() == ExprOp::kAdd;
  bool first = true;
  for (const Expr& operand : expr.operands()) {
    SymValue value;
    if (!run_number(operand, value)) return false;
    if (std::exchange(first, false)) {
      result = value;
      continue;
    }
    auto* total = std::get_if<std::int64_t>(&result);
    const auto* integer = std::get_if<std::int64_t>(&value);
    if (total != nullptr && integer != nullptr) {
      const bool overflow =
          sum ? __builtin_add_overflow(*total, *integer, total) : __builtin_mul_overflow(*total, *integer, total);
      if (overflow) return fail(expr, "it overflows 64 bits");
    } else {
      result = sum ? as_double(result) + as_double(value) : as_double(result) * as_double(value);
    }
  }
  return true;
}

bool Evaluation::run_extreme(const Expr& expr, SymValue& result) {
  const auto wanted = expr.op() == ExprOp::kMax ? std::partial_ordering::greater : std::partial_ordering::less;
  bool first = true;
  for (const Expr& operand : expr.operands()) {
    SymValue value;
    if (!run_number(operand, value)) return false;
    if (std::exchange(first, false) || compare_numbers(value, result) == wanted) result = value;
  }
  return true;
}

bool Evaluation::run_integers(const Expr& expr, SymValue& result) {
  std::int64_t a = 0;
  std::int64_t b = 0;
  if (!run_integer(expr.operands()[0], a) || !run_integer(expr.operands()[1], b)) return false;
  std::optional<std::int64_t> value;
  const bool shift = expr.op() == ExprOp::kLeftShift || expr.op() == ExprOp::kRightShift;
  if (shift && b < 0) return fail(expr, "it shifts by a negative count");
  if (!shift && b == 0) return fail(expr, "it divides by zero");
  switch (expr.op()) {
    case ExprOp::kFloorDiv: value = floor_divide(a, b); break;
    case ExprOp::kMod: value = modulo(a, b); break;
    case ExprOp::kLeftShift: value = shift_left(a, b); break;
    case ExprOp::kRightShift: value = shift_right(a, b); break;
    default: {
      std::int64_t modulus = 0;
      if (!run_integer(expr.operands()[2], modulus)) return false;
      if (modulus == 0) return fail(expr, "it divides by zero");
      value = floor_divide(a, b);
      if (value) value = modulo(*value, modulus);
    }
  }
  if (!value) return fail(expr, "it overflows 64 bits");
  result = *value;
  return true;
}

bool Evaluation::run_power(const Expr& expr, SymValue& result) {
  SymValue base;
  std::int64_t exponent = 0;
  if (!run_number(expr.operands()[0], base) || !run_integer(expr.operands()[1], exponent)) return false;
  if (exponent < 0) return fail(expr, "the exponent is negative");
  if (const double* real = std::get_if<double>(&base)) {
    const double raised = std::pow(*real, static_cast<double>(exponent));
    if (std::isinf(raised) && std::isfinite(*real)) return fail(expr, "it overflows a double");
    result = raised;
    return true;
  }
  const auto value = power(std::get<std::int64_t>(base), exponent);
  if (!value) return fail(expr, "it overflows 64 bits");
  result = *value;
  return true;
}

bool Evaluation::run_true_division(const Expr& expr, SymValue& result) {
  SymValue a;
  SymValue b;
  if (!run_number(expr.operands()[0], a) || !run_number(expr.operands()[1], b)) return false;
  if (as_double(b) == 0) return fail(expr, "it divides by zero");
  const auto* numerator = std::get_if<std::int64_t>(&a);
  const auto* divisor = std::get_if<std::int64_t>(&b);
  result = numerator != nullptr && divisor != nullptr ? true_divide(*numerator, *divisor) : as_double(a) / as_double(b);
  return true;
}

bool Evaluation::run_rounding(const Expr& expr, SymValue& result) {
  SymValue value;
  if (!run_number(expr.operands()[0], value)) return false;
  if (std::holds_alternative<std::int64_t>(value)) {
    result = value;
    return true;
  }
  double real = std::get<double>(value);
  switch (expr.op()) {
    case ExprOp::kFloorToInt: real = std::floor(real); break;
    case ExprOp::kCeilToInt: real = std::ceil(real); break;
    case ExprOp::kTruncToInt: real = std::trunc(real); break;
    default: real = round_half_even(real);
  }
  const auto integer = to_integer(real);
  if (!integer) return fail(expr, "it overflows 64 bits");
  result = *integer;
  return true;
}

bool Evaluation::run_comparison(const Expr& expr, SymValue& result) {
  SymValue a;
  SymValue b;
  if (!run(expr.operands()[0], a) || !run(expr.operands()[1], b)) return false;
  if (is_number(a) != is_number(b)) return fail(expr, "it compares a number with a truth value");
  const bool equality = expr.op() == ExprOp::kEqual || expr.op() == ExprOp::kNotEqual;
  if (!is_number(a)) {
    if (!equality) return fail(expr, "truth values have no order");
    result = (a == b) == (expr.op() == ExprOp::kEqual);
    return true;
  }
  const std::partial_ordering order = compare_numbers(a, b);
  switch (expr.op()) {
    case ExprOp::kEqual: result = order == 0; break;
    case ExprOp::kNotEqual: result = order != 0; break;
    case ExprOp::kLess: result = order < 0; break;
    case ExprOp::kLessEqual: result = order <= 0; break;
    case ExprOp::kGreater: result = order > 0; break;
    default: result = order >= 0;
  }
  return true;
}

// Only what the outcome needs is computed: a branch not taken may divide by zero.
bool Evaluation::run_logic(const Expr& expr, SymValue& result) {
  bool truth = false;
  if (expr.op() == ExprOp::kWhere) {
    if (!run_truth(expr.operands()[0], truth)) return false;
    return run(expr.operands()[truth ? 1 : 2], result);
  }
  if (expr.op() == ExprOp::kNot) {
    if (!run_truth(expr.operands()[0], truth)) return false;
    result = !truth;
    return true;
  }
  const bool decisive = expr.op() == ExprOp::kOr;
  for (const Expr& operand : expr.operands()) {
    if (!run_truth(operand, truth)) return false;
    if (truth == decisive) break;
  }
  result = truth;
  return true;
}

}  // namespace

Result<SymValue> Expr::evaluate_value(const Bindings& bindings) const {
  Evaluation evaluation(bindings);
  SymValue value;
  if (!evaluation.run(*this, value)) return evaluation.take_failure();
  return value;
}

Result<std::int64_t> Expr::evaluate(const Bindings& bindings) const {
  if (node_ == nullptr) return constant_;
  Evaluation evaluation(bindings);
  SymValue value;
  if (!evaluation.run(*this, value)) return evaluation.take_failure();
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return *integer;
  if (const double* real = std::get_if<double>(&value)) {
    // Beyond 2^53 a double no longer says which integer was meant.
    constexpr double kExact = 9007199254740992.0;
    const auto whole = to_integer(*real);
    if (whole && std::abs(*real) <= kExact) return *whole;
  }
  return Status(StatusCode::kInvalidArgument,
                "the size '" + printable(to_string(), kShownBytes) + "' is not an integer");
}

}  // namespace kpt::ir
