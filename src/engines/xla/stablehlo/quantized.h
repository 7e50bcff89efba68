// Numbers in eight bits and fewer, each group with a scale, and products of them.
#pragma once

#include "engines/xla/stablehlo/convolution.h"

namespace kpt::xla {

// value = code · scale. The scale is float32 and keeps the axes that share it, with extent 1.
struct Scaled {
  Value codes;
  Value scale;
};

// The elements along `axes` (from the end where negative) share a scale that takes their greatest magnitude to the
// greatest code: 127, or 448 of float8_e4m3fn. Where one is no finite number, the scale is NaN.
Scaled quantize_int8(Builder& builder, const Value& x, const Extents& axes);
Scaled quantize_fp8(Builder& builder, const Value& x, const Extents& axes);

// Weights of kpt.linear_int4 as float32: codes [N, K/2], scale [N, K/group].
Value unpack_int4(Builder& builder, const Value& codes, const Value& scale, std::int64_t group);

// Of int8 codes, sums in int32, which are given as float32. input [..., K], weight [N, K]; images as convolve()'s.
Value multiply_int8(Builder& builder, const Value& input, const Value& weight);
Value convolve_int8(Builder& builder, const Value& input, const Value& weight, const ConvolutionShape& shape);

}  // namespace kpt::xla
