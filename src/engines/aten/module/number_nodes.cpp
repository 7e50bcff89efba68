#include "engines/aten/module/number_nodes.h"

#include <cmath>
#include <compare>
#include <cstdint>
#include <optional>

#include "engines/aten/module/guarded_call.h"
#include "ir/arithmetic.h"

namespace kpt::aten {
namespace {

using c10::IValue;
using Operands = std::span<const IValue>;

[[noreturn]] void fail(const char* text) { throw CallFailure(CallCode::kFailed, text); }

bool is_float(const IValue& value) { return value.isDouble(); }

std::int64_t as_int(const IValue& value) {
  if (value.isInt()) return value.toInt();
  if (value.isBool()) return value.toBool() ? 1 : 0;
  fail("a size computation met something that is no integer");
}

double as_double(const IValue& value) {
  return value.isDouble() ? value.toDouble() : static_cast<double>(as_int(value));
}

bool any_float(Operands operands) { return is_float(operands[0]) || is_float(operands[1]); }

constexpr const char* kOverflow = "a size computation overflowed 64 bits";
constexpr const char* kDivisionByZero = "a size computation divided by zero";

IValue add(Operands x) {
  if (any_float(x)) return as_double(x[0]) + as_double(x[1]);
  std::int64_t result = 0;
  if (__builtin_add_overflow(as_int(x[0]), as_int(x[1]), &result)) fail(kOverflow);
  return result;
}

IValue subtract(Operands x) {
  if (any_float(x)) return as_double(x[0]) - as_double(x[1]);
  std::int64_t result = 0;
  if (__builtin_sub_overflow(as_int(x[0]), as_int(x[1]), &result)) fail(kOverflow);
  return result;
}

IValue multiply(Operands x) {
  if (any_float(x)) return as_double(x[0]) * as_double(x[1]);
  std::int64_t result = 0;
  if (__builtin_mul_overflow(as_int(x[0]), as_int(x[1]), &result)) fail(kOverflow);
  return result;
}

// Nothing, from integers whose divisor is not zero and whose count not negative, is what 64 bits do not hold.
std::int64_t fit(std::optional<std::int64_t> result) {
  if (!result) fail(kOverflow);
  return *result;
}

void require_divisor(const IValue& value) {
  if (as_double(value) == 0) fail(kDivisionByZero);  // no other integer becomes 0.0
}

// By the exact remainder, as Python does: 1.0 // 0.1 is 9, though the rounded quotient is 10. Zeros have Python's
// signs.
IValue floor_divide(Operands x) {
  require_divisor(x[1]);
  if (!any_float(x)) return fit(ir::floor_divide(as_int(x[0]), as_int(x[1])));
  const double a = as_double(x[0]);
  const double b = as_double(x[1]);
  const double rest = std::fmod(a, b);
  const double quotient = (a - rest) / b - (rest != 0 && (rest < 0) != (b < 0) ? 1 : 0);
  return quotient == 0 ? std::copysign(0.0, a / b) : ir::round_half_even(quotient);
}

IValue modulo(Operands x) {
  require_divisor(x[1]);
  if (!any_float(x)) return fit(ir::modulo(as_int(x[0]), as_int(x[1])));
  const double b = as_double(x[1]);
  const double rest = std::fmod(as_double(x[0]), b);
  if (rest == 0) return std::copysign(0.0, b);
  return (rest < 0) != (b < 0) ? rest + b : rest;
}

IValue true_divide(Operands x) {
  require_divisor(x[1]);
  if (!any_float(x)) return ir::true_divide(as_int(x[0]), as_int(x[1]));
  return as_double(x[0]) / as_double(x[1]);
}

IValue power(Operands x) {
  if (!any_float(x) && as_int(x[1]) >= 0) return fit(ir::power(as_int(x[0]), as_int(x[1])));
  const double base = as_double(x[0]);
  const double exponent = as_double(x[1]);
  const double result = std::pow(base, exponent);
  if (!std::isfinite(base) || !std::isfinite(exponent)) return result;
  if (base == 0 && exponent < 0) fail("a size computation raised zero to a negative power");
  if (base < 0 && exponent != std::floor(exponent)) {
    fail("a size computation raised a negative number to a fraction, which is a complex number");
  }
  if (std::isinf(result)) fail("a size computation overflowed a double");
  return result;
}

void require_count(std::int64_t count) {
  if (count < 0) fail("a size computation shifted by a negative count");
}

IValue shift_left(Operands x) {
  require_count(as_int(x[1]));
  return fit(ir::shift_left(as_int(x[0]), as_int(x[1])));
}

IValue shift_right(Operands x) {
  require_count(as_int(x[1]));
  return fit(ir::shift_right(as_int(x[0]), as_int(x[1])));
}

IValue negate(Operands x) {
  if (is_float(x[0])) return -x[0].toDouble();
  std::int64_t result = 0;
  if (__builtin_sub_overflow(std::int64_t{0}, as_int(x[0]), &result)) fail(kOverflow);
  return result;
}

IValue positive(Operands x) { return x[0].isBool() ? IValue(as_int(x[0])) : x[0]; }

IValue absolute(Operands x) {
  if (is_float(x[0])) return std::fabs(x[0].toDouble());
  return as_int(x[0]) < 0 ? negate(x) : IValue(as_int(x[0]));
}

// Exact, as in Python: a double cannot tell 2^53 from 2^53 + 1.
std::partial_ordering compare(const IValue& a, const IValue& b) {
  if (is_float(a) && is_float(b)) return a.toDouble() <=> b.toDouble();
  if (is_float(b)) return ir::compare(as_int(a), b.toDouble());
  if (is_float(a)) return 0 <=> ir::compare(as_int(b), a.toDouble());
  return as_int(a) <=> as_int(b);
}

IValue equal(Operands x) { return compare(x[0], x[1]) == 0; }
IValue not_equal(Operands x) { return compare(x[0], x[1]) != 0; }
IValue less(Operands x) { return compare(x[0], x[1]) < 0; }
IValue less_equal(Operands x) { return compare(x[0], x[1]) <= 0; }
IValue greater(Operands x) { return compare(x[0], x[1]) > 0; }
IValue greater_equal(Operands x) { return compare(x[0], x[1]) >= 0; }

IValue bit_and(Operands x) {
  if (x[0].isBool() && x[1].isBool()) return x[0].toBool() && x[1].toBool();
  return as_int(x[0]) & as_int(x[1]);
}

IValue bit_or(Operands x) {
  if (x[0].isBool() && x[1].isBool()) return x[0].toBool() || x[1].toBool();
  return as_int(x[0]) | as_int(x[1]);
}

IValue bit_xor(Operands x) {
  if (x[0].isBool() && x[1].isBool()) return x[0].toBool() != x[1].toBool();
  return as_int(x[0]) ^ as_int(x[1]);
}

bool truth(const IValue& value) { return is_float(value) ? value.toDouble() != 0 : as_int(value) != 0; }

IValue logical_not(Operands x) { return !truth(x[0]); }

std::int64_t to_integer(double whole) {
  const auto integer = ir::to_integer(whole);
  if (!integer) fail("a size computation made an integer of a number that is none");
  return *integer;
}

IValue truncate(Operands x) {
  return is_float(x[0]) ? IValue(to_integer(std::trunc(x[0].toDouble()))) : IValue(as_int(x[0]));
}
IValue floor_number(Operands x) {
  return is_float(x[0]) ? IValue(to_integer(std::floor(x[0].toDouble()))) : IValue(as_int(x[0]));
}
IValue ceil_number(Operands x) {
  return is_float(x[0]) ? IValue(to_integer(std::ceil(x[0].toDouble()))) : IValue(as_int(x[0]));
}
IValue round_number(Operands x) {
  return is_float(x[0]) ? IValue(to_integer(ir::round_half_even(x[0].toDouble()))) : IValue(as_int(x[0]));
}
IValue to_float(Operands x) { return as_double(x[0]); }
IValue to_bool(Operands x) { return truth(x[0]); }
IValue square_root(Operands x) {
  if (as_double(x[0]) < 0) fail("a size computation took the root of a negative number");
  return std::sqrt(as_double(x[0]));
}
IValue choose(Operands x) { return truth(x[0]) ? x[1] : x[2]; }
// The first of equal ones and where one is NaN; with a float among them, a float.
IValue pick(Operands x, bool second) {
  const IValue& picked = x[second ? 1 : 0];
  return any_float(x) ? IValue(as_double(picked)) : picked;
}
IValue greatest(Operands x) { return pick(x, compare(x[1], x[0]) > 0); }
IValue least(Operands x) { return pick(x, compare(x[1], x[0]) < 0); }

constexpr NumberOperator kOperators[] = {
    {"_operator.add", 2, add},
    {"_operator.sub", 2, subtract},
    {"_operator.mul", 2, multiply},
    {"_operator.floordiv", 2, floor_divide},
    {"_operator.truediv", 2, true_divide},
    {"_operator.mod", 2, modulo},
    {"_operator.pow", 2, power},
    {"_operator.lshift", 2, shift_left},
    {"_operator.rshift", 2, shift_right},
    {"_operator.neg", 1, negate},
    {"_operator.pos", 1, positive},
    {"_operator.abs", 1, absolute},
    {"_operator.eq", 2, equal},
    {"_operator.ne", 2, not_equal},
    {"_operator.lt", 2, less},
    {"_operator.le", 2, less_equal},
    {"_operator.gt", 2, greater},
    {"_operator.ge", 2, greater_equal},
    {"_operator.and_", 2, bit_and},
    {"_operator.or_", 2, bit_or},
    {"_operator.xor", 2, bit_xor},
    {"_operator.not_", 1, logical_not},
    {"math.trunc", 1, truncate},
    {"math.floor", 1, floor_number},
    {"math.ceil", 1, ceil_number},
    {"builtins.round", 1, round_number},
    {"torch.sym_int", 1, truncate},
    {"torch.sym_float", 1, to_float},
    {"torch.sym_ite", 3, choose},
    {"torch.sym_max", 2, greatest},
    {"torch.sym_min", 2, least},
    {"torch.sym_not", 1, logical_not},
    {"torch._sym_sqrt", 1, square_root},
    {"builtins.bool", 1, to_bool},
};

}  // namespace

const NumberOperator* find_number_operator(std::string_view target) {
  for (const NumberOperator& entry : kOperators) {
    if (entry.target == target) return &entry;
  }
  return nullptr;
}

}  // namespace kpt::aten
