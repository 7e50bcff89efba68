// One operation on each element of up to three operands of any strides and types: arithmetic, comparisons, masks,
// casts, copies of views, fills and ranges.
//
// Intensity: 1 FLOP (sums) to 60 (sines, by double) an element against 1 to 8 bytes an operand, 0.1 a byte for a sum of
// float32. Addresses take some 100 instructions for each axis that cannot be joined to the next, by gfx942's code (a
// division and four long products; those of a quarter of the rate count four): 8 for each of a sum's 12 bytes with one
// axis, 16 with two. An MI300X has 7.7 for each byte that it can move (5.3 TB/s): addresses are the limit as much as
// memory with one axis, more with several and with narrower types, and for operands whose last axis has gaps it is the
// number of lines that are touched. What is contiguous and of one type has faster kernels (activation, convert,
// transpose). The operation and the types are the same for all lanes of a launch, so their branches do not diverge.
//
//   float    operands become float32, the result is rounded once; E4M3 saturates and keeps NaN, as PyTorch's does
//   integer  operands become 64-bit integers, the result keeps its low bits
#pragma once

#include "kernels/gpu/device_math.h"
#include "kernels/gpu/vectors.h"

namespace kpt::gpu {

inline constexpr int kElementAxes = 6;

enum class ElementType : Int32 { kFloat, kHalf, kBFloat, kBool, kUInt8, kInt8, kInt16, kInt32, kInt64, kE4M3 };

enum class ElementOp : Int32 {
  kCopy,      // a
  kAdd,       // a + factor · b
  kSubtract,  // a - factor · b
  kMultiply,
  kDivide,  // float only
  kMinimum,
  kMaximum,
  kSelect,       // a != 0 ? b : c
  kMultiplyAdd,  // a · b + c
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kLogicalAnd,
  kLogicalOr,
  kLogicalNot,
  kBitAnd,  // integer only
  kBitOr,   // integer only
  kBitNot,  // integer only
  kNegate,
  kMagnitude,
  kExponential,  // float only, as all below
  kLogarithm,
  kRoot,
  kInverseRoot,
  kSine,
  kCosine,
  kActivate,
  kRange  // of both: a + place · factor
};

// Data null: the number, in both forms.
struct ElementOperand {
  const void* data;
  Int64 strides[kElementAxes];
  Int64 integer;
  float number;
  ElementType type;
};

struct ElementwiseArgs {
  ElementOperand a, b, c;
  void* output;
  Int64 output_strides[kElementAxes];
  Int64 dims[kElementAxes];  // the last is fastest; those before the first are 1
  Int64 count;
  Int64 factor_integer;
  float factor;
  ElementOp op;
  ElementType output_type;
  Activation activation;
  Int32 axes;  // that are used: the last ones
  Int32 threads;
};

// Where an element lies in each of the four tensors.
struct ElementPlace {
  Int64 a, b, c, output;
};

KPT_DEVICE ElementPlace find_element(const ElementwiseArgs& args, Int64 item) {
  ElementPlace place{0, 0, 0, 0};
  KPT_UNROLL
  for (int axis = kElementAxes - 1; axis >= 0; --axis) {
    if (axis < kElementAxes - args.axes) continue;
    const Int64 rest = divide(item, args.dims[axis]);
    const Int64 index = item - rest * args.dims[axis];
    place.a += index * args.a.strides[axis];
    place.b += index * args.b.strides[axis];
    place.c += index * args.c.strides[axis];
    place.output += index * args.output_strides[axis];
    item = rest;
  }
  return place;
}

KPT_DEVICE Int64 load_whole(ElementType type, const void* data, Int64 index) {
  switch (type) {
    case ElementType::kBool: return static_cast<const UInt8*>(data)[index] != 0 ? 1 : 0;
    case ElementType::kUInt8: return static_cast<const UInt8*>(data)[index];
    case ElementType::kInt8: return static_cast<const Int8*>(data)[index];
    case ElementType::kInt16: return static_cast<const Int16*>(data)[index];
    case ElementType::kInt32: return static_cast<const Int32*>(data)[index];
    default: return static_cast<const Int64*>(data)[index];
  }
}

KPT_DEVICE float load_number(ElementType type, const void* data, Int64 index) {
  switch (type) {
    case ElementType::kFloat: return static_cast<const float*>(data)[index];
    case ElementType::kHalf: return to_float(static_cast<const Half*>(data)[index]);
    case ElementType::kBFloat: return to_float(static_cast<const BFloat*>(data)[index]);
    case ElementType::kE4M3: return to_float(static_cast<const E4M3*>(data)[index]);
    default: return static_cast<float>(load_whole(type, data, index));
  }
}

// A truncating cast. What C leaves open: NaN is 0, and what is too large the largest.
KPT_DEVICE Int64 to_whole(float value) {
  constexpr Int64 kLeast = static_cast<Int64>(1ULL << 63U);
  if (!(value == value)) return 0;
  if (value >= 9223372036854775808.0F) return ~kLeast;
  if (value < -9223372036854775808.0F) return kLeast;
  return static_cast<Int64>(value);
}

KPT_DEVICE void store_whole(ElementType type, void* data, Int64 index, Int64 value) {
  switch (type) {
    case ElementType::kBool: static_cast<UInt8*>(data)[index] = value != 0 ? 1 : 0; return;
    case ElementType::kUInt8:
    case ElementType::kInt8: static_cast<Int8*>(data)[index] = static_cast<Int8>(value); return;
    case ElementType::kInt16: static_cast<Int16*>(data)[index] = static_cast<Int16>(value); return;
    case ElementType::kInt32: static_cast<Int32*>(data)[index] = static_cast<Int32>(value); return;
    case ElementType::kFloat: static_cast<float*>(data)[index] = static_cast<float>(value); return;
    case ElementType::kHalf: static_cast<Half*>(data)[index] = from_float<Half>(static_cast<float>(value)); return;
    case ElementType::kBFloat:
      static_cast<BFloat*>(data)[index] = from_float<BFloat>(static_cast<float>(value));
      return;
    case ElementType::kE4M3: static_cast<E4M3*>(data)[index] = from_float<E4M3>(static_cast<float>(value)); return;
    case ElementType::kInt64: static_cast<Int64*>(data)[index] = value; return;
  }
}

KPT_DEVICE void store_number(ElementType type, void* data, Int64 index, float value) {
  switch (type) {
    case ElementType::kFloat: static_cast<float*>(data)[index] = value; return;
    case ElementType::kHalf: static_cast<Half*>(data)[index] = from_float<Half>(value); return;
    case ElementType::kBFloat: static_cast<BFloat*>(data)[index] = from_float<BFloat>(value); return;
    case ElementType::kE4M3: static_cast<E4M3*>(data)[index] = from_float<E4M3>(value); return;
    case ElementType::kBool: static_cast<UInt8*>(data)[index] = value != 0 ? 1 : 0; return;  // NaN is true
    default: store_whole(type, data, index, to_whole(value)); return;
  }
}

// NaN where one of them is, as PyTorch has it.
KPT_DEVICE float lesser_of(float a, float b) { return (a <= b || a != a) ? a : b; }

// What both forms have, and how they say true.
template <typename T>
KPT_DEVICE T apply_shared(ElementOp op, T a, T b, T c, T factor) {
  switch (op) {
    case ElementOp::kAdd: return a + factor * b;
    case ElementOp::kSubtract: return a - factor * b;
    case ElementOp::kMultiply: return a * b;
    case ElementOp::kSelect: return a != T{0} ? b : c;
    case ElementOp::kMultiplyAdd: return a * b + c;
    case ElementOp::kEqual: return static_cast<T>(a == b);
    case ElementOp::kNotEqual: return static_cast<T>(a != b);
    case ElementOp::kLess: return static_cast<T>(a < b);
    case ElementOp::kLessEqual: return static_cast<T>(a <= b);
    case ElementOp::kGreater: return static_cast<T>(a > b);
    case ElementOp::kGreaterEqual: return static_cast<T>(a >= b);
    case ElementOp::kLogicalAnd: return static_cast<T>(a != T{0} && b != T{0});
    case ElementOp::kLogicalOr: return static_cast<T>(a != T{0} || b != T{0});
    case ElementOp::kLogicalNot: return static_cast<T>(a == T{0});
    case ElementOp::kNegate: return -a;
    default: return a;
  }
}

// sin(x + quarters · π/2). The rest of x below π/4 is found in double: π/2 in three parts, so that products with up to
// 24 bits are exact. Up to |x| = 2^24 the error is that of float32; far beyond, x itself says less than a turn.
KPT_DEVICE float sine_of(float x, int quarters) {
  if (!(magnitude_of(x) < infinity())) return x - x;  // NaN
  const double turns = static_cast<double>(x) * 0.63661977236758138;
  if (turns > 4e18 || turns < -4e18) return 0.0F;
  const Int64 nearest = static_cast<Int64>(turns + (turns < 0 ? -0.5 : 0.5));
  const double count = static_cast<double>(nearest);
  const double rest = static_cast<double>(x) - count * 1.570796325802803 - count * 9.920935774287987e-10 -
                      count * 2.2517417741562176e-18;
  const float r = bounded(static_cast<float>(rest), -0.8F, 0.8F);
  const float square = r * r;
  const Int64 quarter = (nearest + quarters) & 3;
  float result = 0;
  if ((quarter & 1) == 0) {
    result = r + r * square * (-0.166666546F + square * (0.00833216087F - square * 0.000195152959F));
  } else {
    result = 1.0F - 0.5F * square +
             square * square * (0.0416666457F + square * (-0.00138873163F + square * 0.0000244331571F));
  }
  return quarter < 2 ? result : -result;
}

KPT_DEVICE float apply_number(const ElementwiseArgs& args, float a, float b, float c) {
  switch (args.op) {
    case ElementOp::kDivide: return a / b;
    case ElementOp::kMinimum: return lesser_of(a, b);
    case ElementOp::kMaximum: return greater_of(a, b);
    case ElementOp::kMagnitude: return magnitude_of(a);
    case ElementOp::kExponential: return exponential(a);
    case ElementOp::kLogarithm: return logarithm(a);
    case ElementOp::kRoot: return __builtin_sqrtf(a);
    case ElementOp::kInverseRoot: return inverse_root(a);
    case ElementOp::kSine: return sine_of(a, 0);
    case ElementOp::kCosine: return sine_of(a, 1);
    case ElementOp::kActivate: return activate(args.activation, a);
    default: return apply_shared(args.op, a, b, c, args.factor);
  }
}

KPT_DEVICE Int64 apply_whole(const ElementwiseArgs& args, Int64 a, Int64 b, Int64 c) {
  switch (args.op) {
    case ElementOp::kMinimum: return a < b ? a : b;
    case ElementOp::kMaximum: return a > b ? a : b;
    case ElementOp::kBitAnd: return a & b;
    case ElementOp::kBitOr: return a | b;
    case ElementOp::kBitNot: return ~a;
    case ElementOp::kMagnitude: return a < 0 ? -a : a;
    default: return apply_shared(args.op, a, b, c, args.factor_integer);
  }
}

KPT_DEVICE float number_of(const ElementOperand& operand, Int64 index) {
  return operand.data == nullptr ? operand.number : load_number(operand.type, operand.data, index);
}

KPT_DEVICE Int64 whole_of(const ElementOperand& operand, Int64 index) {
  return operand.data == nullptr ? operand.integer : load_whole(operand.type, operand.data, index);
}

template <typename L>
KPT_DEVICE void elementwise_float(const ElementwiseArgs& args, L& lane) {
  const Int64 item = lane.block() * args.threads + lane.thread();
  if (item >= args.count) return;
  const ElementPlace place = find_element(args, item);
  float value = 0;
  if (args.op == ElementOp::kRange) {
    value = args.a.number + static_cast<float>(item) * args.factor;
  } else {
    value = apply_number(args, number_of(args.a, place.a), number_of(args.b, place.b), number_of(args.c, place.c));
  }
  store_number(args.output_type, args.output, place.output, value);
}

template <typename L>
KPT_DEVICE void elementwise_integer(const ElementwiseArgs& args, L& lane) {
  const Int64 item = lane.block() * args.threads + lane.thread();
  if (item >= args.count) return;
  const ElementPlace place = find_element(args, item);
  Int64 value = 0;
  if (args.op == ElementOp::kRange) {
    value = args.a.integer + item * args.factor_integer;
  } else {
    value = apply_whole(args, whole_of(args.a, place.a), whole_of(args.b, place.b), whole_of(args.c, place.c));
  }
  store_whole(args.output_type, args.output, place.output, value);
}

// X(name, arguments, most threads in a block, body)
#define KPT_ELEMENTWISE_KERNELS(X)                            \
  X(elementwise_f32, ElementwiseArgs, 256, elementwise_float) \
  X(elementwise_i64, ElementwiseArgs, 256, elementwise_integer)

}  // namespace kpt::gpu
