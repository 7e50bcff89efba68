// Casts between float types, and to and from scaled numbers of 8 bits.
//
// Intensity, by gfx942's code: casts take up to 5 instructions an element against 4 or 6 bytes, dequantising up to 16
// against 3 or 5, quantising 24 (int8) to 32 (FP8 by integers; both divide) against 3 bytes of 16-bit input and 5 of
// float32: under 2, up to 5, and 5 to 11 a byte. An MI300X has 7.7 for each byte that it can move (163.4 TFLOP/s are
// four to an instruction, by 5.3 TB/s): memory is the limit, but for quantising 16 bits, which the vector units bound.
// A thread takes eight elements: 16 bytes of 16-bit numbers.
//
// Scales: real value = stored number · scale, the sense of checkpoints and of scaled matrix products. Quantising
// divides by the scale, dequantising multiplies.
#pragma once

#include "kernels/gpu/vectors.h"

namespace kpt::gpu {

struct ConvertArgs {
  const void* input;
  void* output;
  const float* scale;  // one for each row, or one; null: no scale
  Int64 count;
  Int64 row_width;  // 0: one scale for all
  Int32 vectors;    // both addresses aligned to 16 bytes, row_width a multiple of 8
  Int32 threads;
};

inline constexpr int kConvertVector = 8;

enum class Scaling : Int32 { kNone, kDivide, kMultiply };

template <typename From, typename To, Scaling kScaling>
KPT_DEVICE void convert_one(const ConvertArgs& a, Int64 index) {
  float value = to_float(static_cast<const From*>(a.input)[index]);
  if constexpr (kScaling != Scaling::kNone) {
    const float scale = a.scale[a.row_width == 0 ? 0 : divide(index, a.row_width)];
    value = kScaling == Scaling::kDivide ? value / scale : value * scale;
  }
  static_cast<To*>(a.output)[index] = from_float<To>(value);
}

template <typename From, typename To, Scaling kScaling, typename L>
KPT_DEVICE void convert(const ConvertArgs& a, L& lane) {
  const Int64 item = lane.block() * a.threads + lane.thread();
  if (a.vectors == 0) {
    if (item < a.count) convert_one<From, To, kScaling>(a, item);
    return;
  }
  const Int64 first = item * kConvertVector;
  if (first + kConvertVector > a.count) {
    for (Int64 index = first; index < a.count; ++index) convert_one<From, To, kScaling>(a, index);
    return;
  }
  float values[kConvertVector];
  load_floats<kConvertVector>(static_cast<const From*>(a.input) + first, values);
  if constexpr (kScaling != Scaling::kNone) {
    const float scale = a.scale[a.row_width == 0 ? 0 : divide(first, a.row_width)];
    KPT_UNROLL
    for (int i = 0; i < kConvertVector; ++i) {
      values[i] = kScaling == Scaling::kDivide ? values[i] / scale : values[i] * scale;
    }
  }
  store_floats<kConvertVector>(static_cast<To*>(a.output) + first, values);
}

// X(name, arguments, most threads in a block, body)
#define KPT_CONVERT_PAIR(X, From, from, To, to)                                    \
  X(quantize_##from##_##to, ConvertArgs, 256, convert<From, To, Scaling::kDivide>) \
  X(dequantize_##to##_##from, ConvertArgs, 256, convert<To, From, Scaling::kMultiply>)
#define KPT_CONVERT_KERNELS_OF(X, T, type)         \
  KPT_CONVERT_PAIR(X, T, type, Int8, i8)           \
  KPT_CONVERT_PAIR(X, T, type, E4M3, e4m3)         \
  KPT_CONVERT_PAIR(X, T, type, E4M3Fnuz, e4m3fnuz) \
  KPT_CONVERT_PAIR(X, T, type, E5M2, e5m2)         \
  KPT_CONVERT_PAIR(X, T, type, E5M2Fnuz, e5m2fnuz)
#define KPT_CONVERT_KERNELS(X)                                               \
  X(cast_f32_f16, ConvertArgs, 256, convert<float, Half, Scaling::kNone>)    \
  X(cast_f32_bf16, ConvertArgs, 256, convert<float, BFloat, Scaling::kNone>) \
  X(cast_f16_f32, ConvertArgs, 256, convert<Half, float, Scaling::kNone>)    \
  X(cast_f16_bf16, ConvertArgs, 256, convert<Half, BFloat, Scaling::kNone>)  \
  X(cast_bf16_f32, ConvertArgs, 256, convert<BFloat, float, Scaling::kNone>) \
  X(cast_bf16_f16, ConvertArgs, 256, convert<BFloat, Half, Scaling::kNone>)  \
  KPT_CONVERT_KERNELS_OF(X, float, f32)                                      \
  KPT_CONVERT_KERNELS_OF(X, Half, f16)                                       \
  KPT_CONVERT_KERNELS_OF(X, BFloat, bf16)

}  // namespace kpt::gpu
