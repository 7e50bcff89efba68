#include "engines/xla/stablehlo/exponent.h"

namespace kpt::xla {
namespace {

constexpr std::int64_t kFractionBits = 23;
constexpr std::int64_t kBias = 127;
constexpr std::int64_t kFieldMask = 255;
constexpr std::int64_t kOneBits = kBias << kFractionBits;
constexpr std::int64_t kSignAndFraction = -(kFieldMask << kFractionBits) - 1;  // as int32
// Three factors of 2^100 reach all float32 numbers from any other, and each is one itself.
constexpr std::int64_t kMostPower = 300;

Value splat_int(Builder& b, std::int64_t number, const Value& like) {
  return b.splat(number, DType::kInt32, like.dims);
}

Value seen_as(Builder& b, const Value& x, DType dtype) {
  return b.emit("stablehlo.bitcast_convert", {x}, dtype, x.dims);
}

Value power_of_two(Builder& b, const Value& power) {
  const Value field = b.binary("add", power, splat_int(b, kBias, power));
  return seen_as(b, b.binary("shift_left", field, splat_int(b, kFractionBits, power)), DType::kFloat32);
}

}  // namespace

Exponent split_exponent(Builder& b, const Value& x) {
  const Value bits = seen_as(b, x, DType::kInt32);
  const Value shifted = b.binary("shift_right_logical", bits, splat_int(b, kFractionBits, x));
  const Value field = b.binary("and", shifted, splat_int(b, kFieldMask, x));
  const Value above = b.compare("GT", field, splat_int(b, 0, x));
  const Value normal = b.binary("and", above, b.compare("LT", field, splat_int(b, kFieldMask, x)));
  const Value rest = b.binary("and", bits, splat_int(b, kSignAndFraction, x));
  const Value factor = seen_as(b, b.binary("or", rest, splat_int(b, kOneBits, x)), DType::kFloat32);
  const Value power = b.binary("subtract", field, splat_int(b, kBias, x));
  const Value zero = splat_int(b, 0, x);
  return {b.select(normal, factor, x), b.select(normal, power, zero)};
}

Value join_exponent(Builder& b, const Exponent& x) {
  const Value least = splat_int(b, -kMostPower, x.power);
  const Value most = splat_int(b, kMostPower, x.power);
  const Value power = b.binary("minimum", b.binary("maximum", x.power, least), most);
  const Value third = b.binary("divide", power, splat_int(b, 3, power));
  const Value rest = b.binary("subtract", b.binary("subtract", power, third), third);
  const Value step = power_of_two(b, third);
  const Value nearly = b.binary("multiply", b.binary("multiply", x.factor, step), step);
  return b.binary("multiply", nearly, power_of_two(b, rest));
}

}  // namespace kpt::xla
