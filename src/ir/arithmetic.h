// Numbers as Python calculates with them, where int64 and double suffice; nothing where they do not.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>

namespace kpt::ir {

// Rounds towards minus infinity. Nothing for a zero divisor and for min / -1.
std::optional<std::int64_t> floor_divide(std::int64_t a, std::int64_t b);
// Has the sign of the divisor. Nothing for a zero divisor.
std::optional<std::int64_t> modulo(std::int64_t a, std::int64_t b);
// Nothing for a negative exponent and on overflow.
std::optional<std::int64_t> power(std::int64_t base, std::int64_t exponent);
// Nothing for a negative count and on overflow.
std::optional<std::int64_t> shift_left(std::int64_t value, std::int64_t count);
// Nothing for a negative count.
std::optional<std::int64_t> shift_right(std::int64_t value, std::int64_t count);
// The double nearest to the exact quotient. The divisor must not be zero.
double true_divide(std::int64_t a, std::int64_t b);
// The double as an integer; nothing when it is not finite, not whole or does not fit.
std::optional<std::int64_t> to_integer(double value);
// To the nearest whole number, ties to the even one.
double round_half_even(double value);
// Exact, also where the integer has no double.
std::partial_ordering compare(std::int64_t a, double b);

}  // namespace kpt::ir
