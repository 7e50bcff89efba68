// Sums, products, quotients and powers of tensors and numbers.
#include <cmath>
#include <limits>

#include "engines/xla/stablehlo/call.h"

namespace kpt::xla {
namespace {

struct Pair {
  Value a, b;
  DType dtype = DType::kFloat32;
};

// Both operands in the type in which they meet, broadcast to the result.
Pair read_pair(Call& call, std::string_view first = "self", std::string_view second = "other") {
  const Operand operands[] = {call.operand(first), call.operand(second)};
  const DType dtype = call.compute_dtype(operands);
  return {call.expand(operands[0], dtype), call.expand(operands[1], dtype), dtype};
}

Value add(Builder& b, const Value& x, const Value& y) { return b.binary(x.dtype == DType::kBool ? "or" : "add", x, y); }

Value multiply(Builder& b, const Value& x, const Value& y) {
  return b.binary(x.dtype == DType::kBool ? "and" : "multiply", x, y);
}

// `x` times the number `name`, which is 1 when it is absent.
Value scaled(Call& call, const Value& x, std::string_view name) {
  const auto factor = call.find_number(name);
  if (!factor || as_double(*factor) == 1) return x;
  return multiply(call.builder(), x, call.builder().splat(*factor, x.dtype, x.dims));
}

void lower_add(Call& call) {
  const Pair pair = read_pair(call);
  call.set(add(call.builder(), pair.a, scaled(call, pair.b, "alpha")));
}

void lower_sub(Call& call) {
  const Pair pair = read_pair(call);
  call.set(call.builder().binary("subtract", pair.a, scaled(call, pair.b, "alpha")));
}

void lower_rsub(Call& call) {
  const Pair pair = read_pair(call);
  call.set(call.builder().binary("subtract", pair.b, scaled(call, pair.a, "alpha")));
}

void lower_mul(Call& call) {
  const Pair pair = read_pair(call);
  call.set(multiply(call.builder(), pair.a, pair.b));
}

// Where the remainder's sign is not the divisor's, and it is not zero.
Value differs_in_sign(Builder& b, const Value& rest, const Value& divisor) {
  const Value zero = b.splat(std::int64_t{0}, rest.dtype, rest.dims);
  const Value nonzero = b.compare("NE", rest, zero);
  const Value signs = b.compare("NE", {b.compare("LT", rest, zero), b.compare("LT", divisor, zero)});
  return b.binary("and", nonzero, signs);
}

Value floor_divide_ints(Builder& b, const Value& x, const Value& y) {
  const Value quotient = b.binary("divide", x, y);
  const Value wrong = differs_in_sign(b, b.binary("remainder", x, y), y);
  return b.binary("subtract", quotient, b.convert(wrong, x.dtype));
}

// By the exact remainder, as PyTorch does: the rounded quotient may have reached the next integer.
Value floor_divide_reals(Builder& b, const Value& x, const Value& y) {
  const Value zero = b.splat(0.0, x.dtype, x.dims);
  const Value rest = b.binary("remainder", x, y);
  Value quotient = b.binary("divide", b.binary("subtract", x, rest), y);
  quotient = b.binary("subtract", quotient, b.convert(differs_in_sign(b, rest, y), x.dtype));
  const Value floor = b.unary("floor", quotient);
  const Value high = b.compare("GT", {b.binary("subtract", quotient, floor), b.splat(0.5, x.dtype, x.dims)});
  Value result = b.binary("add", floor, b.convert(high, x.dtype));
  // A zero has the sign of the quotient.
  const Value rounded = b.binary("divide", x, y);
  const Value negative = b.compare("LT", {b.binary("divide", b.splat(1.0, x.dtype, x.dims), rounded), zero});
  const Value below = b.binary("or", negative, b.compare("LT", rounded, zero));
  const Value signed_zero = b.select({below, b.splat(-0.0, x.dtype, x.dims), zero});
  result = b.select(b.compare("EQ", quotient, zero), signed_zero, result);
  return b.select(b.compare("EQ", y, zero), rounded, result);
}

Value floor_divide(Builder& b, const Value& x, const Value& y) {
  return is_floating(x.dtype) ? floor_divide_reals(b, x, y) : floor_divide_ints(b, x, y);
}

Value truncate(Builder& b, const Value& x) {
  return b.select({b.compare("LT", x, b.splat(0.0, x.dtype, x.dims)), b.unary("ceil", x), b.unary("floor", x)});
}

void lower_div(Call& call) {
  const Pair pair = read_pair(call);
  Builder& b = call.builder();
  const std::string_view mode = call.text("rounding_mode", "");
  if (mode == "floor") return call.set(floor_divide(b, pair.a, pair.b));
  const Value quotient = b.binary("divide", pair.a, pair.b);
  call.set(mode == "trunc" && is_floating(pair.dtype) ? truncate(b, quotient) : quotient);
}

void lower_floor_divide(Call& call) {
  const Pair pair = read_pair(call);
  call.set(floor_divide(call.builder(), pair.a, pair.b));
}

void lower_remainder(Call& call) {
  const Pair pair = read_pair(call);
  Builder& b = call.builder();
  const Value rest = b.binary("remainder", pair.a, pair.b);
  call.set(b.select({differs_in_sign(b, rest, pair.b), b.binary("add", rest, pair.b), rest}));
}

void lower_fmod(Call& call) {
  const Pair pair = read_pair(call);
  call.set(call.builder().binary("remainder", pair.a, pair.b));
}

Value whole_power(Builder& b, const Value& x, std::int64_t exponent) {
  Value result = b.splat(std::int64_t{1}, x.dtype, x.dims);
  Value square = x;
  bool first = true;
  for (std::int64_t rest = exponent; rest > 0; rest >>= 1) {
    if ((rest & 1) != 0) {
      result = first ? square : b.binary("multiply", result, square);
      first = false;
    }
    if (rest > 1) square = b.binary("multiply", square, square);
  }
  return result;
}

void lower_pow_number(Call& call) {
  Builder& b = call.builder();
  const Operand operands[] = {call.operand("self"), call.operand("exponent")};
  const DType dtype = call.compute_dtype(operands);
  const Value x = call.expand(operands[0], dtype);
  const double exponent = as_double(operands[1].number);
  if (!is_floating(dtype)) {
    if (exponent < 0) refuse("an integer tensor has no negative power");
    return call.set(whole_power(b, x, as_int(operands[1].number)));
  }
  const Value one = b.splat(1.0, dtype, x.dims);
  // The same short cuts as PyTorch's: they are more exact than the general form.
  if (exponent == 0.5) return call.set(b.unary("sqrt", x));
  if (exponent == -0.5) return call.set(b.unary("rsqrt", x));
  if (exponent == -1) return call.set(b.binary("divide", one, x));
  if (exponent == -2) return call.set(b.binary("divide", one, b.binary("multiply", x, x)));
  if (exponent == 0 || exponent == 1 || exponent == 2 || exponent == 3) {
    return call.set(whole_power(b, x, static_cast<std::int64_t>(exponent)));
  }
  call.set(b.binary("power", x, call.expand(operands[1], dtype)));
}

void lower_pow(Call& call) {
  const Pair pair = read_pair(call, "self", "exponent");
  call.set(call.builder().binary("power", pair.a, pair.b));
}

void lower_atan2(Call& call) {
  const Pair pair = read_pair(call);
  call.set(call.builder().binary("atan2", pair.a, pair.b));
}

// The greater one times sqrt(1 + (lesser / greater)²): squares of large numbers would overflow.
void lower_hypot(Call& call) {
  const Pair pair = read_pair(call);
  Builder& b = call.builder();
  const Value x = b.unary("abs", pair.a);
  const Value y = b.unary("abs", pair.b);
  const Value high = b.binary("maximum", x, y);
  const Value zero = b.splat(0.0, pair.dtype, high.dims);
  const Value one = b.splat(1.0, pair.dtype, high.dims);
  const Value divisor = b.select(b.compare("EQ", high, zero), one, high);
  const Value ratio = b.binary("divide", b.binary("minimum", x, y), divisor);
  const Value root = b.unary("sqrt", b.binary("add", one, b.binary("multiply", ratio, ratio)));
  const Value length = b.binary("multiply", high, root);
  // An infinite one decides, whatever the other is.
  const Value infinity = b.splat(std::numeric_limits<double>::infinity(), pair.dtype, high.dims);
  const Value endless = b.binary("or", {b.compare("EQ", x, infinity), b.compare("EQ", y, infinity)});
  call.set(b.select(endless, infinity, length));
}

void lower_lerp(Call& call) {
  Builder& b = call.builder();
  const Operand operands[] = {call.operand("self"), call.operand("end"), call.operand("weight")};
  const DType dtype = call.compute_dtype({operands, 2});
  const Value start = call.expand(operands[0], dtype);
  const Value end = call.expand(operands[1], dtype);
  const Value weight = call.expand(operands[2], dtype);
  const Value distance = b.binary("subtract", end, start);
  const Value from_start = b.binary("add", start, b.binary("multiply", weight, distance));
  const Value rest = b.binary("subtract", b.splat(1.0, dtype, start.dims), weight);
  const Value from_end = b.binary("subtract", end, b.binary("multiply", distance, rest));
  const Value near = b.compare("LT", {b.unary("abs", weight), b.splat(0.5, dtype, start.dims)});
  call.set(b.select(near, from_start, from_end));
}

void lower_addc(Call& call, std::string_view operation) {
  Builder& b = call.builder();
  const Operand operands[] = {call.operand("self"), call.operand("tensor1"), call.operand("tensor2")};
  const DType dtype = call.compute_dtype(operands);
  const Value first = scaled(call, call.expand(operands[1], dtype), "value");
  const Value term = b.binary(operation, first, call.expand(operands[2], dtype));
  call.set(b.binary("add", call.expand(operands[0], dtype), term));
}

void lower_addcmul(Call& call) { lower_addc(call, "multiply"); }
void lower_addcdiv(Call& call) { lower_addc(call, "divide"); }

constexpr Rule kArithmeticRules[] = {
    {"aten.add.Scalar", lower_add},
    {"aten.add.Tensor", lower_add},
    {"aten.addcdiv.default", lower_addcdiv},
    {"aten.addcmul.default", lower_addcmul},
    {"aten.atan2.default", lower_atan2},
    {"aten.div.Scalar", lower_div},
    {"aten.div.Scalar_mode", lower_div},
    {"aten.div.Tensor", lower_div},
    {"aten.div.Tensor_mode", lower_div},
    {"aten.floor_divide.Scalar", lower_floor_divide},
    {"aten.floor_divide.default", lower_floor_divide},
    {"aten.fmod.Scalar", lower_fmod},
    {"aten.fmod.Tensor", lower_fmod},
    {"aten.hypot.default", lower_hypot},
    {"aten.lerp.Scalar", lower_lerp},
    {"aten.lerp.Tensor", lower_lerp},
    {"aten.mul.Scalar", lower_mul},
    {"aten.mul.Tensor", lower_mul},
    {"aten.pow.Scalar", lower_pow},
    {"aten.pow.Tensor_Scalar", lower_pow_number},
    {"aten.pow.Tensor_Tensor", lower_pow},
    {"aten.remainder.Scalar", lower_remainder},
    {"aten.remainder.Scalar_Tensor", lower_remainder},
    {"aten.remainder.Tensor", lower_remainder},
    {"aten.rsub.Scalar", lower_rsub},
    {"aten.rsub.Tensor", lower_rsub},
    {"aten.sub.Scalar", lower_sub},
    {"aten.sub.Tensor", lower_sub},
    {"aten.true_divide.Scalar", lower_div},
    {"aten.true_divide.Tensor", lower_div},
};

}  // namespace

std::span<const Rule> arithmetic_rules() { return kArithmeticRules; }

}  // namespace kpt::xla
