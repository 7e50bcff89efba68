// Numbers of 16 and 8 bits in memory, and their conversions: to the nearest, ties to even.
//
// float16 and bfloat16 overflow to infinity, as PyTorch's casts do. FP8 saturates: what is too large, infinity too,
// becomes the largest finite number, and NaN stays NaN. int8 saturates at ±127 and turns NaN into 0.
//
//   type        PyTorch's name      largest  NaN          found on
//   E4M3        float8_e4m3fn           448  0x7f, 0xff   NVIDIA from sm_89, gfx950, gfx12
//   E4M3Fnuz    float8_e4m3fnuz         240  0x80         gfx942
//   E5M2        float8_e5m2           57344  0x7d…0x7f    NVIDIA from sm_89, gfx950, gfx12
//   E5M2Fnuz    float8_e5m2fnuz       57344  0x80         gfx942
//
// The instructions of sm_80 and sm_89, and gfx950's for bfloat16, are used where the target has them; everything else
// is integer arithmetic that gives the same bits on every target.
#pragma once

#include "kernels/gpu/simt.h"

namespace kpt::gpu {

struct Half {
  UInt16 bits;
};
struct BFloat {
  UInt16 bits;
};
struct E4M3 {
  UInt8 bits;
};
struct E4M3Fnuz {
  UInt8 bits;
};
struct E5M2 {
  UInt8 bits;
};
struct E5M2Fnuz {
  UInt8 bits;
};

// A format: kLargest is the code of the largest finite number, kOverflow of what is larger, kNan of NaN. kFnuz: one
// zero, one NaN (the code of minus zero), no infinity. Types, not values: device code cannot refer to a constant of the
// host.
struct HalfFormat {
  static constexpr int kExponentBits = 5, kMantissaBits = 10, kBias = 15;
  static constexpr UInt32 kLargest = 0x7bff, kOverflow = 0x7c00, kNan = 0x7e00;
  static constexpr bool kFnuz = false;
};
struct E4M3Format {
  static constexpr int kExponentBits = 4, kMantissaBits = 3, kBias = 7;
  static constexpr UInt32 kLargest = 0x7e, kOverflow = 0x7e, kNan = 0x7f;
  static constexpr bool kFnuz = false;
};
struct E4M3FnuzFormat {
  static constexpr int kExponentBits = 4, kMantissaBits = 3, kBias = 8;
  static constexpr UInt32 kLargest = 0x7f, kOverflow = 0x7f, kNan = 0x80;
  static constexpr bool kFnuz = true;
};
struct E5M2Format {
  static constexpr int kExponentBits = 5, kMantissaBits = 2, kBias = 15;
  static constexpr UInt32 kLargest = 0x7b, kOverflow = 0x7b, kNan = 0x7f;
  static constexpr bool kFnuz = false;
};
struct E5M2FnuzFormat {
  static constexpr int kExponentBits = 5, kMantissaBits = 2, kBias = 16;
  static constexpr UInt32 kLargest = 0x7f, kOverflow = 0x7f, kNan = 0x80;
  static constexpr bool kFnuz = true;
};

KPT_DEVICE UInt32 bits_of(float value) { return __builtin_bit_cast(UInt32, value); }
KPT_DEVICE float float_of(UInt32 bits) { return __builtin_bit_cast(float, bits); }
// 2^exponent, for normal numbers.
KPT_DEVICE constexpr float power_of_two(int exponent) {
  return __builtin_bit_cast(float, static_cast<UInt32>(exponent + 127) << 23U);
}

// The code of the number nearest to `value`.
template <typename Format>
KPT_DEVICE UInt32 encode(float value) {
  const UInt32 bits = bits_of(value);
  const UInt32 magnitude = bits & 0x7fffffffU;
  const UInt32 sign = (bits >> 31U) << static_cast<unsigned>(Format::kExponentBits + Format::kMantissaBits);
  if (magnitude > 0x7f800000U) return Format::kNan;
  const auto dropped = static_cast<unsigned>(23 - Format::kMantissaBits);
  UInt32 code = 0;
  if (magnitude < static_cast<UInt32>(128 - Format::kBias) << 23U) {
    // Below the smallest normal number: adding a number whose last place is that of the subnormals rounds to it.
    const float step = power_of_two(1 - Format::kBias + static_cast<int>(dropped));
    code = bits_of(float_of(magnitude) + step) - bits_of(step);
  } else {
    const UInt32 shifted = magnitude - (static_cast<UInt32>(127 - Format::kBias) << 23U);
    code = (shifted + (1U << (dropped - 1U)) - 1U + ((shifted >> dropped) & 1U)) >> dropped;
    if (code > Format::kLargest) code = Format::kOverflow;
  }
  if (Format::kFnuz && code == 0) return 0;
  return sign | code;
}

// The number of a code that is no NaN and no infinity.
template <typename Format>
KPT_DEVICE float decode_finite(UInt32 code) {
  const auto width = static_cast<unsigned>(Format::kExponentBits + Format::kMantissaBits);
  const auto mantissa_bits = static_cast<unsigned>(Format::kMantissaBits);
  const UInt32 sign = (code >> width) << 31U;
  const UInt32 magnitude = code & ((1U << width) - 1U);
  if ((magnitude >> mantissa_bits) == 0) {
    return float_of(sign |
                    bits_of(static_cast<float>(magnitude) * power_of_two(1 - Format::kBias - Format::kMantissaBits)));
  }
  return float_of(sign | ((magnitude << (23U - mantissa_bits)) + (static_cast<UInt32>(127 - Format::kBias) << 23U)));
}

KPT_DEVICE float nan_float() { return float_of(0x7fc00000U); }

KPT_DEVICE float to_float(float value) { return value; }
KPT_DEVICE float to_float(BFloat value) { return float_of(static_cast<UInt32>(value.bits) << 16U); }
KPT_DEVICE float to_float(Half value) {
#if defined(KPT_SIMT_HIP)
  return static_cast<float>(__builtin_bit_cast(_Float16, value.bits));
#elif defined(KPT_SIMT_CUDA)
  float result;
  asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(value.bits));
  return result;
#else
  const UInt32 magnitude = value.bits & 0x7fffU;
  if (magnitude < 0x7c00U) return decode_finite<HalfFormat>(value.bits);
  return float_of((static_cast<UInt32>(value.bits & 0x8000U) << 16U) | 0x7f800000U | ((magnitude & 0x3ffU) << 13U));
#endif
}
KPT_DEVICE float to_float(E4M3 value) {
  return (value.bits & 0x7fU) == 0x7fU ? nan_float() : decode_finite<E4M3Format>(value.bits);
}
KPT_DEVICE float to_float(E4M3Fnuz value) {
  return value.bits == 0x80U ? nan_float() : decode_finite<E4M3FnuzFormat>(value.bits);
}
KPT_DEVICE float to_float(E5M2 value) {
  return to_float(Half{static_cast<UInt16>(static_cast<UInt32>(value.bits) << 8U)});  // the upper half of a float16
}
KPT_DEVICE float to_float(E5M2Fnuz value) {
  return value.bits == 0x80U ? nan_float() : decode_finite<E5M2FnuzFormat>(value.bits);
}
KPT_DEVICE float to_float(Int8 value) { return static_cast<float>(value); }

template <typename T>
struct FromFloat;

template <>
struct FromFloat<float> {
  KPT_DEVICE static float convert(float value) { return value; }
};

template <>
struct FromFloat<Half> {
  KPT_DEVICE static Half convert(float value) {
#if defined(KPT_SIMT_HIP)
    return {__builtin_bit_cast(UInt16, static_cast<_Float16>(value))};
#elif defined(KPT_SIMT_CUDA)
    Half result;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result.bits) : "f"(value));
    return result;
#else
    return {static_cast<UInt16>(encode<HalfFormat>(value))};
#endif
  }
};

template <>
struct FromFloat<BFloat> {
  KPT_DEVICE static BFloat convert(float value) {
#if defined(KPT_SIMT_CUDA) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    BFloat result;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result.bits) : "f"(value));
    return result;
#elif defined(KPT_SIMT_HIP)
    return {__builtin_bit_cast(UInt16, static_cast<__bf16>(value))};
#else
    const UInt32 bits = bits_of(value);
    if ((bits & 0x7fffffffU) > 0x7f800000U) return {static_cast<UInt16>((bits >> 16U) | 0x40U)};
    return {static_cast<UInt16>((bits + 0x7fffU + ((bits >> 16U) & 1U)) >> 16U)};
#endif
  }
};

template <>
struct FromFloat<E4M3> {
  KPT_DEVICE static E4M3 convert(float value) {
#if defined(KPT_SIMT_CUDA) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
    UInt16 pair;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0F), "f"(value));
    return {static_cast<UInt8>(pair & 0xffU)};
#else
    return {static_cast<UInt8>(encode<E4M3Format>(value))};
#endif
  }
};

template <>
struct FromFloat<E5M2> {
  KPT_DEVICE static E5M2 convert(float value) {
#if defined(KPT_SIMT_CUDA) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
    UInt16 pair;
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0F), "f"(value));
    return {static_cast<UInt8>(pair & 0xffU)};
#else
    return {static_cast<UInt8>(encode<E5M2Format>(value))};
#endif
  }
};

template <>
struct FromFloat<E4M3Fnuz> {
  KPT_DEVICE static E4M3Fnuz convert(float value) { return {static_cast<UInt8>(encode<E4M3FnuzFormat>(value))}; }
};

template <>
struct FromFloat<E5M2Fnuz> {
  KPT_DEVICE static E5M2Fnuz convert(float value) { return {static_cast<UInt8>(encode<E5M2FnuzFormat>(value))}; }
};

template <>
struct FromFloat<Int8> {
  KPT_DEVICE static Int8 convert(float value) {
    if (value != value) return 0;
    const float bounded = value < -127.0F ? -127.0F : (value > 127.0F ? 127.0F : value);
    constexpr float kIntegers = 12582912.0F;  // 1.5 · 2^23: next to it, floats are whole numbers
    const float rounded = bounded + kIntegers;
    return static_cast<Int8>(static_cast<Int32>(bits_of(rounded) - bits_of(kIntegers)));
  }
};

template <typename T>
KPT_DEVICE T from_float(float value) {
  return FromFloat<T>::convert(value);
}

// Two numbers of 16 bits in a word, the first in its lower half. One instruction converts both on NVIDIA.
template <typename T>
KPT_DEVICE UInt32 pack_pair(float first, float second) {
  return static_cast<UInt32>(from_float<T>(first).bits) | (static_cast<UInt32>(from_float<T>(second).bits) << 16U);
}
#if defined(KPT_SIMT_CUDA) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
template <>
KPT_DEVICE UInt32 pack_pair<BFloat>(float first, float second) {
  UInt32 pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  return pair;
}
template <>
KPT_DEVICE UInt32 pack_pair<Half>(float first, float second) {
  UInt32 pair;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  return pair;
}
#endif

// The largest number of a type that values are scaled into.
template <typename T>
KPT_DEVICE constexpr float largest_of() {
  return 127.0F;
}
template <>
KPT_DEVICE constexpr float largest_of<E4M3>() {
  return 448.0F;
}
template <>
KPT_DEVICE constexpr float largest_of<E4M3Fnuz>() {
  return 240.0F;
}
template <>
KPT_DEVICE constexpr float largest_of<E5M2>() {
  return 57344.0F;
}
template <>
KPT_DEVICE constexpr float largest_of<E5M2Fnuz>() {
  return 57344.0F;
}

}  // namespace kpt::gpu
