// Comparisons, logic, bits, choices and limits.
#include "engines/xla/stablehlo/call.h"

namespace kpt::xla {
namespace {

void compare(Call& call, std::string_view direction) {
  const Operand operands[] = {call.operand("self"), call.operand("other")};
  const DType dtype = promote_operands(operands);
  call.set(call.builder().compare(direction, {call.expand(operands[0], dtype), call.expand(operands[1], dtype)}));
}

void lower_eq(Call& call) { compare(call, "EQ"); }
void lower_ne(Call& call) { compare(call, "NE"); }
void lower_lt(Call& call) { compare(call, "LT"); }
void lower_le(Call& call) { compare(call, "LE"); }
void lower_gt(Call& call) { compare(call, "GT"); }
void lower_ge(Call& call) { compare(call, "GE"); }

void logical(Call& call, std::string_view operation) {
  const Value a = call.expand(call.operand("self"), DType::kBool);
  call.set(call.builder().binary(operation, a, call.expand(call.operand("other"), DType::kBool)));
}

void lower_logical_and(Call& call) { logical(call, "and"); }
void lower_logical_or(Call& call) { logical(call, "or"); }
void lower_logical_xor(Call& call) { logical(call, "xor"); }

void lower_logical_not(Call& call) {
  Builder& b = call.builder();
  call.set(b.unary("not", b.convert(call.tensor("self"), DType::kBool)));
}

void bitwise(Call& call, std::string_view operation) {
  const Operand operands[] = {call.operand("self"), call.operand("other")};
  const DType dtype = promote_operands(operands);
  if (is_floating(dtype)) refuse("floats have no bits here");
  call.set(call.builder().binary(operation, {call.expand(operands[0], dtype), call.expand(operands[1], dtype)}));
}

void lower_and(Call& call) { bitwise(call, "and"); }
void lower_or(Call& call) { bitwise(call, "or"); }
void lower_xor(Call& call) { bitwise(call, "xor"); }
void lower_shift_left(Call& call) { bitwise(call, "shift_left"); }
void lower_shift_right(Call& call) {
  const Operand operands[] = {call.operand("self"), call.operand("other")};
  const bool byte = promote_operands(operands) == DType::kUInt8;
  bitwise(call, byte ? "shift_right_logical" : "shift_right_arithmetic");
}

void lower_bitwise_not(Call& call) { call.set(call.builder().unary("not", call.tensor("self"))); }

void lower_where(Call& call) {
  Builder& b = call.builder();
  const Operand operands[] = {call.operand("self"), call.operand("other")};
  const Value condition = b.broadcast_to(b.convert(call.tensor("condition"), DType::kBool), call.type().dims);
  const DType dtype = call.type().dtype;
  call.set(b.select({condition, call.expand(operands[0], dtype), call.expand(operands[1], dtype)}));
}

void lower_masked_fill(Call& call) {
  Builder& b = call.builder();
  const Value mask = b.broadcast_to(b.convert(call.tensor("mask"), DType::kBool), call.type().dims);
  const DType dtype = call.type().dtype;
  call.set(b.select({mask, call.expand(call.operand("value"), dtype), call.expand(call.operand("self"), dtype)}));
}

Value extreme(Builder& b, bool greatest, const Value& x, const Value& y) {
  if (x.dtype == DType::kBool) return b.binary(greatest ? "or" : "and", x, y);
  return b.binary(greatest ? "maximum" : "minimum", x, y);
}

// In the result's own type: nothing is rounded. A limit of a wider kind has made the result wide already.
void limit(Call& call, std::string_view low, std::string_view high) {
  const DType dtype = call.type().dtype;
  Value value = call.expand(call.operand("self"), dtype);
  if (!low.empty() && call.has(low)) {
    value = extreme(call.builder(), true, value, call.expand(call.operand(low), dtype));
  }
  if (!high.empty() && call.has(high)) {
    value = extreme(call.builder(), false, value, call.expand(call.operand(high), dtype));
  }
  call.set(value);
}

void lower_clamp(Call& call) { limit(call, "min", "max"); }
void lower_clamp_min(Call& call) { limit(call, "min", ""); }
void lower_clamp_max(Call& call) { limit(call, "", "max"); }

void pick_extreme(Call& call, bool greatest, bool skips_nan) {
  Builder& b = call.builder();
  const DType dtype = call.type().dtype;
  const Value x = call.expand(call.operand("self"), dtype);
  const Value y = call.expand(call.operand("other"), dtype);
  Value value = extreme(b, greatest, x, y);
  if (skips_nan && is_floating(dtype)) {
    value = b.select(b.compare("NE", y, y), x, value);
    value = b.select(b.compare("NE", x, x), y, value);
  }
  call.set(value);
}

void lower_maximum(Call& call) { pick_extreme(call, true, false); }
void lower_minimum(Call& call) { pick_extreme(call, false, false); }
void lower_fmax(Call& call) { pick_extreme(call, true, true); }
void lower_fmin(Call& call) { pick_extreme(call, false, true); }

constexpr Rule kComparisonRules[] = {
    {"aten.__and__.Scalar", lower_and},
    {"aten.__and__.Tensor", lower_and},
    {"aten.__lshift__.Scalar", lower_shift_left},
    {"aten.__lshift__.Tensor", lower_shift_left},
    {"aten.__or__.Scalar", lower_or},
    {"aten.__or__.Tensor", lower_or},
    {"aten.__rshift__.Scalar", lower_shift_right},
    {"aten.__rshift__.Tensor", lower_shift_right},
    {"aten.__xor__.Scalar", lower_xor},
    {"aten.__xor__.Tensor", lower_xor},
    {"aten.bitwise_and.Scalar", lower_and},
    {"aten.bitwise_and.Tensor", lower_and},
    {"aten.bitwise_left_shift.Tensor", lower_shift_left},
    {"aten.bitwise_left_shift.Tensor_Scalar", lower_shift_left},
    {"aten.bitwise_not.default", lower_bitwise_not},
    {"aten.bitwise_or.Scalar", lower_or},
    {"aten.bitwise_or.Tensor", lower_or},
    {"aten.bitwise_right_shift.Tensor", lower_shift_right},
    {"aten.bitwise_right_shift.Tensor_Scalar", lower_shift_right},
    {"aten.bitwise_xor.Scalar", lower_xor},
    {"aten.bitwise_xor.Tensor", lower_xor},
    {"aten.clamp.Tensor", lower_clamp},
    {"aten.clamp.default", lower_clamp},
    {"aten.clamp_max.Tensor", lower_clamp_max},
    {"aten.clamp_max.default", lower_clamp_max},
    {"aten.clamp_min.Tensor", lower_clamp_min},
    {"aten.clamp_min.default", lower_clamp_min},
    {"aten.eq.Scalar", lower_eq},
    {"aten.eq.Tensor", lower_eq},
    {"aten.fmax.default", lower_fmax},
    {"aten.fmin.default", lower_fmin},
    {"aten.ge.Scalar", lower_ge},
    {"aten.ge.Tensor", lower_ge},
    {"aten.gt.Scalar", lower_gt},
    {"aten.gt.Tensor", lower_gt},
    {"aten.le.Scalar", lower_le},
    {"aten.le.Tensor", lower_le},
    {"aten.logical_and.default", lower_logical_and},
    {"aten.logical_not.default", lower_logical_not},
    {"aten.logical_or.default", lower_logical_or},
    {"aten.logical_xor.default", lower_logical_xor},
    {"aten.lt.Scalar", lower_lt},
    {"aten.lt.Tensor", lower_lt},
    {"aten.masked_fill.Scalar", lower_masked_fill},
    {"aten.masked_fill.Tensor", lower_masked_fill},
    {"aten.max.other", lower_maximum},
    {"aten.maximum.default", lower_maximum},
    {"aten.min.other", lower_minimum},
    {"aten.minimum.default", lower_minimum},
    {"aten.ne.Scalar", lower_ne},
    {"aten.ne.Tensor", lower_ne},
    {"aten.where.Scalar", lower_where},
    {"aten.where.ScalarOther", lower_where},
    {"aten.where.ScalarSelf", lower_where},
    {"aten.where.self", lower_where},
};

}  // namespace

std::span<const Rule> comparison_rules() { return kComparisonRules; }

}  // namespace kpt::xla
