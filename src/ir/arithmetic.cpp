#include "ir/arithmetic.h"

#include <bit>
#include <cmath>
#include <limits>

namespace kpt::ir {
namespace {

__extension__ using Wide = unsigned __int128;

constexpr double kTwo63 = 9223372036854775808.0;

std::uint64_t magnitude(std::int64_t value) {
  return value < 0 ? ~static_cast<std::uint64_t>(value) + 1 : static_cast<std::uint64_t>(value);
}

}  // namespace

std::optional<std::int64_t> floor_divide(std::int64_t a, std::int64_t b) {
  if (b == 0 || (b == -1 && a == std::numeric_limits<std::int64_t>::min())) return std::nullopt;
  const std::int64_t quotient = a / b;
  const bool inexact = a % b != 0;
  return inexact && ((a < 0) != (b < 0)) ? quotient - 1 : quotient;
}

std::optional<std::int64_t> modulo(std::int64_t a, std::int64_t b) {
  if (b == 0) return std::nullopt;
  if (b == -1) return 0;  // min % -1 overflows in C++
  const std::int64_t rest = a % b;
  return rest != 0 && ((rest < 0) != (b < 0)) ? rest + b : rest;
}

std::optional<std::int64_t> power(std::int64_t base, std::int64_t exponent) {
  if (exponent < 0) return std::nullopt;
  std::int64_t result = 1;
  while (true) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) return std::nullopt;
    exponent >>= 1;
    if (exponent == 0) return result;
    if (__builtin_mul_overflow(base, base, &base)) return std::nullopt;
  }
}

std::optional<std::int64_t> shift_left(std::int64_t value, std::int64_t count) {
  if (count < 0) return std::nullopt;
  if (value == 0) return 0;
  if (count > 63) return std::nullopt;
  if (count == 63) {
    if (value != -1) return std::nullopt;
    return std::numeric_limits<std::int64_t>::min();
  }
  std::int64_t result = 0;
  if (__builtin_mul_overflow(value, std::int64_t{1} << count, &result)) return std::nullopt;
  return result;
}

std::optional<std::int64_t> shift_right(std::int64_t value, std::int64_t count) {
  if (count < 0) return std::nullopt;
  return value >> (count > 63 ? 63 : count);
}

double true_divide(std::int64_t a, std::int64_t b) {
  if (a == 0) return b < 0 ? -0.0 : 0.0;
  // The quotient of the magnitudes with at least 63 bits. Its last bit also says whether anything follows, so that the
  // one rounding, to double, is the right one.
  const std::uint64_t numerator = magnitude(a);
  const std::uint64_t divisor = magnitude(b);
  const int shift = std::countl_zero(numerator) + 63;
  const Wide wide = Wide{numerator} << shift;
  Wide quotient = wide / divisor;
  if (wide % divisor != 0) quotient |= 1;
  const double result = std::ldexp(static_cast<double>(quotient), -shift);
  return (a < 0) != (b < 0) ? -result : result;
}

std::optional<std::int64_t> to_integer(double value) {
  if (!(value >= -kTwo63 && value < kTwo63) || std::trunc(value) != value) return std::nullopt;
  return static_cast<std::int64_t>(value);
}

double round_half_even(double value) { return std::isfinite(value) ? value - std::remainder(value, 1.0) : value; }

std::partial_ordering compare(std::int64_t a, double b) {
  if (std::isnan(b)) return std::partial_ordering::unordered;
  if (b >= kTwo63) return std::partial_ordering::less;
  if (b < -kTwo63) return std::partial_ordering::greater;
  const double whole = std::trunc(b);
  const auto integer = static_cast<std::int64_t>(whole);
  if (a != integer) return a <=> integer;
  return whole <=> b;
}

}  // namespace kpt::ir
