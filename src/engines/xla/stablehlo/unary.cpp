// Functions of one tensor, element by element.
#include <limits>
#include <utility>

#include "engines/xla/stablehlo/activations.h"
#include "engines/xla/stablehlo/call.h"
#include "engines/xla/stablehlo/exponent.h"

namespace kpt::xla {
namespace {

// Integers become floats first, as the recorded type says; 16-bit floats are computed in 32.
template <typename Function>
void float_unary(Call& call, const Function& function) {
  const Operand self = call.operand("self");
  const DType dtype = call.compute_dtype({&self, 1});
  call.set(function(call.builder(), call.expand(self, dtype)));
}

// Keeps the type of its operand; no rounding, so nothing is widened.
template <typename Function>
void plain_unary(Call& call, const Function& function) {
  call.set(function(call.builder(), call.builder().convert(call.tensor("self"), call.type().dtype)));
}

// An operation of StableHLO (or CHLO, which all plugins take) by its name.
template <const char* kOperation>
void named(Call& call) {
  float_unary(call, [](Builder& b, const Value& x) { return b.emit(kOperation, {x}, x.dtype, x.dims); });
}

void lower_erf(Call& call) { float_unary(call, error_function); }

constexpr char kAcos[] = "chlo.acos";
constexpr char kAcosh[] = "chlo.acosh";
constexpr char kAsin[] = "chlo.asin";
constexpr char kAsinh[] = "chlo.asinh";
constexpr char kAtan[] = "chlo.atan";
constexpr char kAtanh[] = "chlo.atanh";
constexpr char kCos[] = "stablehlo.cosine";
constexpr char kCosh[] = "chlo.cosh";
constexpr char kErfc[] = "chlo.erfc";
constexpr char kExp[] = "stablehlo.exponential";
constexpr char kExpm1[] = "stablehlo.exponential_minus_one";
constexpr char kLog[] = "stablehlo.log";
constexpr char kLog1p[] = "stablehlo.log_plus_one";
constexpr char kRsqrt[] = "stablehlo.rsqrt";
constexpr char kSigmoid[] = "stablehlo.logistic";
constexpr char kSin[] = "stablehlo.sine";
constexpr char kSinh[] = "chlo.sinh";
constexpr char kSqrt[] = "stablehlo.sqrt";
constexpr char kTan[] = "chlo.tan";
constexpr char kTanh[] = "stablehlo.tanh";

template <const char* kOperation>
void exponential(Call& call) {
  float_unary(call,
              [](Builder& b, const Value& x) { return keep_nan(b, x, b.emit(kOperation, {x}, x.dtype, x.dims)); });
}

Value splat_like(Builder& b, double number, const Value& x) { return b.splat(number, x.dtype, x.dims); }

void lower_exp2(Call& call) {
  float_unary(call, [](Builder& b, const Value& x) { return b.binary("power", splat_like(b, 2, x), x); });
}

// In float32 the power of two is counted apart, so that powers of the base give integers, as they do in PyTorch: log(x)
// times a constant is beside them. `per_two`: the logarithm of 2, in a part that times a power of two is exact, and the
// rest.
Value logarithm(Builder& b, const Value& x, double per_e, std::pair<double, double> per_two) {
  if (x.dtype != DType::kFloat32) return b.binary("multiply", {b.unary("log", x), splat_like(b, per_e, x)});
  const Exponent split = split_exponent(b, x);
  // Around 1, where the logarithm is small.
  const Value high = b.compare("GT", split.factor, splat_like(b, 1.4142135623730951, x));
  const Value halved = b.binary("multiply", split.factor, splat_like(b, 0.5, x));
  const Value factor = b.select(high, halved, split.factor);
  const Value power = b.convert(b.binary("add", split.power, b.convert(high, DType::kInt32)), DType::kFloat32);
  Value rest = b.binary("multiply", {b.unary("log", factor), splat_like(b, per_e, x)});
  if (per_two.second != 0) {
    rest = b.binary("add", b.binary("multiply", power, splat_like(b, per_two.second, x)), rest);
  }
  return b.binary("add", b.binary("multiply", power, splat_like(b, per_two.first, x)), rest);
}

void lower_log2(Call& call) {
  float_unary(call, [](Builder& b, const Value& x) { return logarithm(b, x, 1.4426950408889634, {1, 0}); });
}

void lower_log10(Call& call) {
  float_unary(call, [](Builder& b, const Value& x) {
    return logarithm(b, x, 0.43429448190325183, {0.301025390625, 4.6050389811980175e-06});
  });
}

void lower_reciprocal(Call& call) {
  float_unary(call, [](Builder& b, const Value& x) { return b.binary("divide", splat_like(b, 1, x), x); });
}

void lower_square(Call& call) {
  const Value self = call.tensor("self");
  const Value wide = call.builder().convert(self, math_dtype(call.type().dtype));
  call.set(call.builder().binary("multiply", wide, wide));
}

void lower_neg(Call& call) {
  plain_unary(call, [](Builder& b, const Value& x) { return b.unary("negate", x); });
}

void lower_abs(Call& call) {
  plain_unary(call, [](Builder& b, const Value& x) {
    return x.dtype == DType::kUInt8 || x.dtype == DType::kBool ? x : b.unary("abs", x);
  });
}

void lower_identity(Call& call) {
  plain_unary(call, [](Builder&, const Value& x) { return x; });
}

// Rounding to integers: nothing to do for tensors of integers.
template <typename Function>
void rounding(Call& call, const Function& function) {
  plain_unary(call, [&](Builder& b, const Value& x) { return is_floating(x.dtype) ? function(b, x) : x; });
}

void lower_floor(Call& call) {
  rounding(call, [](Builder& b, const Value& x) { return b.unary("floor", x); });
}

void lower_ceil(Call& call) {
  rounding(call, [](Builder& b, const Value& x) { return b.unary("ceil", x); });
}

void lower_round(Call& call) {
  if (call.integer("decimals", 0) != 0) refuse("it rounds to a number of decimals");
  rounding(call, [](Builder& b, const Value& x) { return b.unary("round_nearest_even", x); });
}

void lower_trunc(Call& call) {
  rounding(call, [](Builder& b, const Value& x) {
    const Value negative = b.compare("LT", x, splat_like(b, 0, x));
    return b.select({negative, b.unary("ceil", x), b.unary("floor", x)});
  });
}

// 1, 0 or -1; 0 for NaN, where StableHLO's own would give NaN.
void lower_sign(Call& call) {
  plain_unary(call, [](Builder& b, const Value& x) {
    const Value zero = b.splat(std::int64_t{0}, x.dtype, x.dims);
    Value above = b.compare("GT", x, zero);
    if (x.dtype == DType::kBool) return above;
    return b.binary("subtract", {b.convert(above, x.dtype), b.convert(b.compare("LT", x, zero), x.dtype)});
  });
}

Value is_nan(Builder& b, const Value& x) {
  return is_floating(x.dtype) ? b.compare("NE", x, x) : b.splat(false, DType::kBool, x.dims);
}

Value is_infinite(Builder& b, const Value& x) {
  if (!is_floating(x.dtype)) return b.splat(false, DType::kBool, x.dims);
  return b.compare("EQ", {b.unary("abs", x), splat_like(b, std::numeric_limits<double>::infinity(), x)});
}

void lower_isnan(Call& call) { call.set(is_nan(call.builder(), call.tensor("self"))); }
void lower_isinf(Call& call) { call.set(is_infinite(call.builder(), call.tensor("self"))); }

void lower_isfinite(Call& call) {
  Builder& b = call.builder();
  const Value self = call.tensor("self");
  call.set(b.unary("not", b.binary("or", {is_nan(b, self), is_infinite(b, self)})));
}

void lower_signbit(Call& call) {
  Builder& b = call.builder();
  const Value self = call.tensor("self");
  const Value zero = b.splat(std::int64_t{0}, self.dtype, self.dims);
  const Value below = b.compare("LT", self, zero);
  if (!is_floating(self.dtype)) return call.set(below);
  // -0 has its bit set, too: its reciprocal is -inf.
  const Value inverse = b.binary("divide", splat_like(b, 1, self), self);
  call.set(b.binary("or", below, b.compare("LT", inverse, zero)));
}

void lower_nan_to_num(Call& call) {
  Builder& b = call.builder();
  const Value self = call.tensor("self");
  if (!is_floating(self.dtype)) return call.set(self);
  const double infinity = std::numeric_limits<double>::infinity();
  double greatest = std::numeric_limits<float>::max();
  if (self.dtype == DType::kFloat64) greatest = std::numeric_limits<double>::max();
  if (self.dtype == DType::kBFloat16) greatest = 3.3895313892515355e38;
  if (self.dtype == DType::kFloat16) greatest = 65504;
  const auto replace = [&](const Value& where, std::string_view name, double fallback, const Value& x) {
    return b.select(where, splat_like(b, call.real(name, fallback), x), x);
  };
  Value value = replace(is_nan(b, self), "nan", 0, self);
  value = replace(b.compare("EQ", self, splat_like(b, infinity, self)), "posinf", greatest, value);
  call.set(replace(b.compare("EQ", self, splat_like(b, -infinity, self)), "neginf", -greatest, value));
}

constexpr Rule kUnaryRules[] = {
    {"aten.abs.default", lower_abs},
    {"aten.acos.default", named<kAcos>},
    {"aten.acosh.default", named<kAcosh>},
    {"aten.asin.default", named<kAsin>},
    {"aten.asinh.default", named<kAsinh>},
    {"aten.atan.default", named<kAtan>},
    {"aten.atanh.default", named<kAtanh>},
    {"aten.ceil.default", lower_ceil},
    {"aten.cos.default", named<kCos>},
    {"aten.cosh.default", exponential<kCosh>},
    {"aten.erf.default", lower_erf},
    {"aten.erfc.default", named<kErfc>},
    {"aten.exp.default", exponential<kExp>},
    {"aten.exp2.default", lower_exp2},
    {"aten.expm1.default", exponential<kExpm1>},
    {"aten.floor.default", lower_floor},
    {"aten.isfinite.default", lower_isfinite},
    {"aten.isinf.default", lower_isinf},
    {"aten.isnan.default", lower_isnan},
    {"aten.log.default", named<kLog>},
    {"aten.log10.default", lower_log10},
    {"aten.log1p.default", named<kLog1p>},
    {"aten.log2.default", lower_log2},
    {"aten.nan_to_num.default", lower_nan_to_num},
    {"aten.neg.default", lower_neg},
    {"aten.positive.default", lower_identity},
    {"aten.reciprocal.default", lower_reciprocal},
    {"aten.round.decimals", lower_round},
    {"aten.round.default", lower_round},
    {"aten.rsqrt.default", named<kRsqrt>},
    {"aten.sgn.default", lower_sign},
    {"aten.sigmoid.default", named<kSigmoid>},
    {"aten.sign.default", lower_sign},
    {"aten.signbit.default", lower_signbit},
    {"aten.sin.default", named<kSin>},
    {"aten.sinh.default", exponential<kSinh>},
    {"aten.sqrt.default", named<kSqrt>},
    {"aten.square.default", lower_square},
    {"aten.tan.default", named<kTan>},
    {"aten.tanh.default", named<kTanh>},
    {"aten.trunc.default", lower_trunc},
};

}  // namespace

std::span<const Rule> unary_rules() { return kUnaryRules; }

}  // namespace kpt::xla
