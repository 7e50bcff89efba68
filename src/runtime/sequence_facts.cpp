#include "runtime/sequence_facts.h"

#include <algorithm>
#include <cmath>

#include "runtime/row_targets.h"

namespace kpt::detail {
namespace {

void multiply_into(Factors& product, const ir::Expr& factor) {
  if (const auto number = factor.constant()) {
    if (__builtin_mul_overflow(product.number, *number, &product.number)) product.number = 0;
  } else if (factor.op() == ir::ExprOp::kMul) {
    for (const ir::Expr& operand : factor.operands()) multiply_into(product, operand);
  } else {
    product.symbols.push_back(factor.to_string());
  }
}

std::optional<double> find_known(const KnownArguments& arguments, std::string_view name) {
  const auto found = std::ranges::find(arguments, name, &KnownArguments::value_type::first);
  return found == arguments.end() ? std::nullopt : found->second;
}

std::optional<double> choose_known(std::optional<double> condition, std::optional<double> yes,
                                   std::optional<double> no) {
  if (condition) return *condition != 0 ? yes : no;
  return yes == no ? yes : std::nullopt;
}

std::optional<double> evaluate_pair(std::string_view name, std::optional<double> a, std::optional<double> b) {
  if (name == "__and__" || name == "bitwise_and" || name == "logical_and") {
    if (a == 0.0 || b == 0.0) return 0.0;
    return a == 1.0 && b == 1.0 ? a : std::nullopt;
  }
  if (name == "mul") {
    if (a && b) return *a * *b;
    return a == 0.0 || b == 0.0 ? std::optional(0.0) : std::nullopt;
  }
  if (name == "add") {
    if (a && b) return *a + *b;
    const std::optional<double> one = a ? a : b;
    return one && std::isinf(*one) ? one : std::nullopt;
  }
  if (!a || !b) return std::nullopt;
  if (name == "__or__" || name == "bitwise_or" || name == "logical_or") {
    return *a == 0 && *b == 0 ? std::optional(0.0) : std::nullopt;
  }
  if (name == "sub") return *a - *b;
  if (name == "rsub") return *b - *a;
  if (name == "eq") return *a == *b ? 1.0 : 0.0;
  if (name == "ne") return *a != *b ? 1.0 : 0.0;
  if (name == "lt") return *a < *b ? 1.0 : 0.0;
  if (name == "le") return *a <= *b ? 1.0 : 0.0;
  if (name == "gt") return *a > *b ? 1.0 : 0.0;
  if (name == "ge") return *a >= *b ? 1.0 : 0.0;
  return std::nullopt;
}

constexpr std::string_view kCopies[] = {"_to_copy", "alias",     "clone", "contiguous",
                                        "detach",   "expand_as", "to",    "type_as"};

std::optional<double> evaluate(std::string_view name, const KnownArguments& arguments, DType result) {
  const std::optional<double> self = find_known(arguments, "self");
  if (std::ranges::find(kCopies, name) != std::end(kCopies)) {
    return self && result == DType::kBool ? std::optional(*self != 0 ? 1.0 : 0.0) : self;
  }
  if (name == "where") {
    return choose_known(find_known(arguments, "condition"), self, find_known(arguments, "other"));
  }
  if (name == "masked_fill") return choose_known(find_known(arguments, "mask"), find_known(arguments, "value"), self);
  if (name == "full_like") return find_known(arguments, "fill_value");
  if (name == "zeros_like") return 0.0;
  if (name == "ones_like") return 1.0;
  if (name == "logical_not" || (name == "bitwise_not" && result == DType::kBool)) {
    return self ? std::optional(*self == 0 ? 1.0 : 0.0) : std::nullopt;
  }
  const auto alpha = std::ranges::find(arguments, "alpha", &KnownArguments::value_type::first);
  if (alpha != arguments.end() && alpha->second != 1.0) return std::nullopt;
  return evaluate_pair(name, self, find_known(arguments, "other"));
}

}  // namespace

Factors factors_of(const ir::Expr& expr) {
  Factors factors;
  multiply_into(factors, expr);
  std::ranges::sort(factors.symbols);
  return factors;
}

Factors operator*(const Factors& a, const Factors& b) {
  Factors product;
  if (__builtin_mul_overflow(a.number, b.number, &product.number)) product.number = 0;
  std::ranges::merge(a.symbols, b.symbols, std::back_inserter(product.symbols));
  return product;
}

std::optional<Factors> divide(const Factors& whole, const Factors& part) {
  if (part.number == 0 || whole.number % part.number != 0 || !std::ranges::includes(whole.symbols, part.symbols)) {
    return std::nullopt;
  }
  Factors rest;
  rest.number = whole.number / part.number;
  std::ranges::set_difference(whole.symbols, part.symbols, std::back_inserter(rest.symbols));
  return rest;
}

std::optional<std::vector<MovedAxis>> move_axes(const std::vector<ir::Expr>& from, const std::vector<AxisFacts>& facts,
                                                const std::vector<ir::Expr>& to, std::string_view symbol) {
  std::vector<std::pair<std::size_t, Factors>> places;  // of the symbol among the extents: what is before it
  Factors before;
  for (std::size_t axis = 0; axis < from.size(); ++axis) {
    if (mentions(from[axis], symbol)) places.emplace_back(axis, before * facts[axis].outer);
    before = before * factors_of(from[axis]);
  }
  std::vector<MovedAxis> moved;
  before = {};
  for (std::size_t axis = 0; axis < to.size(); ++axis) {
    if (mentions(to[axis], symbol)) {
      if (moved.size() == places.size()) return std::nullopt;
      const auto& [source, wanted] = places[moved.size()];
      const auto outer = divide(wanted, before);
      const auto others = divide(factors_of(to[axis]), Factors{1, {std::string(symbol)}});
      if (!outer || !others || !divide(*others, *outer)) return std::nullopt;
      moved.push_back({source, axis, *outer});
    }
    before = before * factors_of(to[axis]);
  }
  return moved.size() == places.size() ? std::optional(std::move(moved)) : std::nullopt;
}

std::optional<double> evaluate_known(std::string_view name, const KnownArguments& arguments, DType result) {
  const std::optional<double> known = evaluate(name, arguments, result);
  if (!known || !(*known == 0 || *known == 1 || std::isinf(*known))) return std::nullopt;
  return std::isinf(*known) && !is_floating(result) ? std::nullopt : known;
}

std::optional<double> compare_behind_end(std::string_view name, std::int64_t self_offset, std::int64_t other_offset,
                                         bool self_behind) {
  constexpr std::int64_t kLargest = std::int64_t{1} << 40U;  // so that no difference overflows
  if (std::abs(self_offset) > kLargest || std::abs(other_offset) > kLargest) return std::nullopt;
  const std::int64_t offset = self_offset - other_offset;
  if (self_behind) {  // the difference is at least
    const std::int64_t least = offset + 1;
    if (name == "le" && least > 0) return 0.0;
    if (name == "lt" && least >= 0) return 0.0;
    if (name == "ge" && least >= 0) return 1.0;
    if (name == "gt" && least > 0) return 1.0;
    return std::nullopt;
  }
  const std::int64_t most = offset - 1;
  if (name == "le" && most <= 0) return 1.0;
  if (name == "lt" && most < 0) return 1.0;
  if (name == "ge" && most < 0) return 0.0;
  if (name == "gt" && most <= 0) return 0.0;
  return std::nullopt;
}

}  // namespace kpt::detail
