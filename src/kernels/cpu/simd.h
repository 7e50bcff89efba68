// Vectors of float32 as wide as the instruction set that the including file is compiled for. Each such file defines
// KPT_SIMD, the name of its namespace, so that the same text compiled twice makes two sets of functions and the linker
// cannot put one in the other's place.
#ifndef KPT_SIMD
#error "a file that includes simd.h defines KPT_SIMD first"
#endif
#pragma once

#include <cstdint>

#if defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace kpt::kernels::KPT_SIMD {

#if defined(__AVX512F__)
#define KPT_SIMD_BYTES 64
#elif defined(__AVX2__)
#define KPT_SIMD_BYTES 32
#else
#define KPT_SIMD_BYTES 16
#endif

using Floats [[gnu::vector_size(KPT_SIMD_BYTES)]] = float;
using Words [[gnu::vector_size(KPT_SIMD_BYTES)]] = std::uint32_t;
using LooseFloats [[gnu::vector_size(KPT_SIMD_BYTES), gnu::aligned(4), gnu::may_alias]] = float;

inline constexpr std::int64_t kLanes = KPT_SIMD_BYTES / 4;

inline Floats load(const float* from) { return *reinterpret_cast<const LooseFloats*>(from); }
inline void store(float* to, Floats value) { *reinterpret_cast<LooseFloats*>(to) = value; }
// Not zero plus the value, which is an addition in every loop: it makes -0 to 0. Nothing taken off is no instruction.
inline Floats splat(float value) { return value - Floats{}; }

// NaN where either is one, except on x86, where the second operand stays.
inline Floats greater_of(Floats a, Floats b) {
#if defined(__aarch64__)
  return __builtin_bit_cast(Floats, vmaxq_f32(__builtin_bit_cast(float32x4_t, a), __builtin_bit_cast(float32x4_t, b)));
#else
  return a > b ? a : b;
#endif
}

inline float sum_of(Floats value) {
  float sum = 0;
  for (int lane = 0; lane < kLanes; ++lane) sum += value[lane];
  return sum;
}

inline float greatest_of(Floats value) {
  float greatest = value[0];
  for (int lane = 1; lane < kLanes; ++lane) greatest = value[lane] > greatest ? value[lane] : greatest;
  return greatest;
}

// e^x for x <= 0, below one unit in the last place beyond rounding; zero below -87.3, where float32 has no normal
// numbers left. NaN stays NaN.
inline Floats exp_of_nonpositive(Floats x) {
  constexpr float kLog2E = 1.44269504088896341F;
  constexpr float kRounding = 12582912.0F;  // 1.5 · 2^23: adding it rounds to a whole number, which its low bits hold
  const Floats shifted = x * kLog2E + kRounding;
  const Floats power = shifted - kRounding;
  const Floats r = (x - power * 0.693145751953125F) - power * 1.428606765330187e-06F;
  // 1 + r + r² q(r), fitted to 3e-9 on |r| <= ln 2 / 2.
  Floats q = splat(0.0013814539415761828F);
  q = q * r + 0.00836874544620514F;
  q = q * r + 0.04166838899254799F;
  q = q * r + 0.1666652113199234F;
  q = q * r + 0.4999999403953552F;
  const Floats reduced = r * r * q + r + 1.0F;
  const Words scale = (__builtin_bit_cast(Words, shifted) << 23) + 0x3f800000U;
  const Floats result = reduced * __builtin_bit_cast(Floats, scale);
  return x < splat(-87.3F) ? Floats{} : result;
}

inline void exp_of_values(const float* values, std::int64_t count, float* results) {
  for (std::int64_t index = 0; index < count; index += kLanes) {
    store(results + index, exp_of_nonpositive(load(values + index)));
  }
}

}  // namespace kpt::kernels::KPT_SIMD
