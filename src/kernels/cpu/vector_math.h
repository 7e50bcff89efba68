// Functions of float vectors for the kernels' last step, written once for every vector width.
//
// For sources that are compiled with instruction flags of their own: `Isa` must be a type in that source's unnamed
// namespace, so that every instance stays inside that source. Otherwise the linker could keep the copy with AVX-512
// instructions for a caller without them.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "kernels/cpu/activation.h"

namespace kpt::kernels {

// Written out by width: GCC 12 does not take a size that depends on a template for __builtin_convertvector.
template <int kWidth>
struct VectorTypes;
#define KPT_VECTOR_TYPES(width)                                           \
  template <>                                                             \
  struct VectorTypes<width> {                                             \
    typedef float Floats __attribute__((vector_size(width * 4)));         \
    typedef std::int32_t Ints __attribute__((vector_size(width * 4)));    \
    typedef std::uint32_t Words __attribute__((vector_size(width * 4)));  \
    typedef std::uint16_t Halves __attribute__((vector_size(width * 2))); \
  };
KPT_VECTOR_TYPES(4)
KPT_VECTOR_TYPES(8)
KPT_VECTOR_TYPES(16)
#undef KPT_VECTOR_TYPES

// `Isa::kWidth` is the number of floats in a vector: 4, 8 or 16.
template <typename Isa>
struct VectorMath {
  static constexpr int kWidth = Isa::kWidth;
  using Floats = typename VectorTypes<kWidth>::Floats;
  using Ints = typename VectorTypes<kWidth>::Ints;
  using Words = typename VectorTypes<kWidth>::Words;
  using Halves = typename VectorTypes<kWidth>::Halves;

  static Floats load(const float* source) {
    Floats value;
    std::memcpy(&value, source, sizeof(value));
    return value;
  }
  static Ints load(const std::int32_t* source) {
    Ints value;
    std::memcpy(&value, source, sizeof(value));
    return value;
  }
  static void store(float* target, Floats value) { std::memcpy(target, &value, sizeof(value)); }
  static Floats fill(float value) { return value - Floats{}; }  // zero plus the value is an addition: of -0 it makes 0
  // Signed sums that leave their range on the way come back modulo 2^32.
  static Ints wrapping_sum(Ints a, Ints b) {
    Words left;
    Words right;
    std::memcpy(&left, &a, sizeof(left));
    std::memcpy(&right, &b, sizeof(right));
    left += right;
    std::memcpy(&a, &left, sizeof(a));
    return a;
  }
  static Floats from_ints(Ints value) { return __builtin_convertvector(value, Floats); }

  static Floats load_bfloat16(const std::uint16_t* source) {
#if defined(__aarch64__)
    // GCC 12 takes the general conversion apart into single elements.
    return as_floats(__builtin_bit_cast(Words, vshll_n_u16(vld1_u16(source), 16)));
#endif
    Halves halves;
    std::memcpy(&halves, source, sizeof(halves));
    const Words words = __builtin_convertvector(halves, Words) << 16;
    return as_floats(words);
  }
  // To nearest, ties to even; a NaN stays one.
  static void store_bfloat16(std::uint16_t* target, Floats value) {
    const Words bits = as_words(value);
    const Words rounded = (bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16;
    const Words quiet = (bits >> 16) | 0x40U;
    const Words chosen = value == value ? rounded : quiet;
#if defined(__aarch64__)
    return vst1_u16(target, vmovn_u32(__builtin_bit_cast(uint32x4_t, chosen)));
#endif
    const Halves halves = __builtin_convertvector(chosen, Halves);
    std::memcpy(target, &halves, sizeof(halves));
  }

  static Floats exponential(Floats x) {
    Floats clamped = x < fill(kLeastExponent) ? fill(kLeastExponent) : x;
    clamped = clamped > fill(kGreatestExponent) ? fill(kGreatestExponent) : clamped;
    const Floats shifted = clamped * kLog2E + kRoundingShift;
    const Floats n = shifted - kRoundingShift;
    const Floats result = (exponential_minus_1(reduce(clamped, n)) + 1.0F) * power_of_2(shifted);
    const Floats infinite = as_floats(Words{} + 0x7F800000U);
    const Floats bounded = x > fill(kGreatestExponent) ? infinite : result;
    return x < fill(kLeastExponent) ? Floats{} : bounded;
  }

  static Floats sigmoid(Floats x) { return 1.0F / (1.0F + exponential(-x)); }
  static Floats silu(Floats x) { return x / (1.0F + exponential(-x)); }

  // (e^2x - 1) / (e^2x + 1) by e^2|x| - 1, which loses nothing near zero.
  static Floats tanh(Floats x) {
    const Words sign = as_words(x) & 0x80000000U;
    Floats magnitude = as_floats(as_words(x) ^ sign);
    magnitude = magnitude > fill(10.0F) ? fill(10.0F) : magnitude;
    const Floats doubled = magnitude + magnitude;
    const Floats shifted = doubled * kLog2E + kRoundingShift;
    const Floats scale = power_of_2(shifted);
    const Floats reduced = exponential_minus_1(reduce(doubled, shifted - kRoundingShift));
    const Floats grown = reduced * scale + (scale - 1.0F);
    return as_floats(as_words(grown / (grown + 2.0F)) | sign);
  }

  // x sigmoid(2u) is x (1 + tanh u) / 2 without its cancellation.
  static Floats gelu_tanh(Floats x) {
    const Floats doubled_u = x * (1.5957691216057308F + 0.07135481282052908F * x * x);
    return x / (1.0F + exponential(-doubled_u));
  }

  // x Φ(x) = max(x, 0) - z Φ(-z) with z = |x|, and Φ(-z) = e^(-z²/2) t P(t), t = 1 / (1 + 0.3 z): P is fitted to
  // 1.2e-7 on [0, 13.3]. No cancellation, so the tail keeps its relative accuracy as far as e^(-z²/2) does.
  static Floats gelu(Floats x) {
    const Floats magnitude = as_floats(as_words(x) & 0x7FFFFFFFU);
    const Floats z = magnitude > fill(13.2F) ? fill(13.2F) : magnitude;  // e^(-z²/2) is a normal number up to here
    const Floats t = 1.0F / (1.0F + 0.3F * z);
    Floats tail = fill(0.03603627532720566F);
    tail = tail * t - 0.15871350467205048F;
    tail = tail * t + 0.20896442234516144F;
    tail = tail * t - 0.05609573796391487F;
    tail = tail * t + 0.1298433393239975F;
    tail = tail * t + 0.09952308237552643F;
    tail = tail * t + 0.12081688642501831F;
    tail = tail * t + 0.11962516605854034F;
    const Floats square = z * z;
    const Floats shifted = square * (-0.5F * kLog2E) + kRoundingShift;
    const Floats r = square * (-0.5F * kLog2E) + (kRoundingShift - shifted);
    Floats power = fill(0.0013276467798277736F);  // 2^r for |r| <= 0.5
    power = power * r + 0.009675540961325169F;
    power = power * r + 0.05550713464617729F;
    power = power * r + 0.24022120237350464F;
    power = power * r + 0.6931469440460205F;
    power = power * r + 1.0000001192092896F;
    return relu(x) - z * t * (tail * (power * power_of_2(shifted)));
  }

  static Floats relu(Floats x) { return x < Floats{} ? Floats{} : x; }
  static Floats clamp_to_6(Floats x) {
    const Floats positive = relu(x);
    return positive > fill(6.0F) ? fill(6.0F) : positive;
  }

  template <Activation kKind>
  static Floats activate(Floats x) {
    if constexpr (kKind == Activation::kRelu) return relu(x);
    if constexpr (kKind == Activation::kGelu) return gelu(x);
    if constexpr (kKind == Activation::kGeluTanh) return gelu_tanh(x);
    if constexpr (kKind == Activation::kSilu) return silu(x);
    if constexpr (kKind == Activation::kSigmoid) return sigmoid(x);
    if constexpr (kKind == Activation::kTanh) return tanh(x);
    if constexpr (kKind == Activation::kHardswish) return x * clamp_to_6(x + 3.0F) / 6.0F;
    if constexpr (kKind == Activation::kHardsigmoid) return clamp_to_6(x + 3.0F) / 6.0F;
    if constexpr (kKind == Activation::kRelu6) return clamp_to_6(x);
    return x;
  }

 private:
  static constexpr float kLog2E = 1.44269504088896341F;
  static constexpr float kRoundingShift = 12582912.0F;  // 1.5 · 2^23: adding it rounds to a whole number
  static constexpr float kLeastExponent = -87.33F;
  static constexpr float kGreatestExponent = 88.02F;

  static Words as_words(Floats value) {
    Words words;
    std::memcpy(&words, &value, sizeof(words));
    return words;
  }
  static Floats as_floats(Words value) {
    Floats floats;
    std::memcpy(&floats, &value, sizeof(floats));
    return floats;
  }

  // x - n ln 2, with ln 2 in two parts.
  static Floats reduce(Floats x, Floats n) { return (x - n * 0.693145751953125F) - n * 1.428606765330187e-06F; }
  // e^r - 1 for |r| < 0.43.
  static Floats exponential_minus_1(Floats r) {
    Floats q = fill(0.0013983797980472445F);
    q = q * r + 0.008388115093111992F;
    q = q * r + 0.04166557267308235F;
    q = q * r + 0.16666315495967865F;
    q = q * r + 0.5F;
    return r * r * q + r;
  }
  // 2^n from n + kRoundingShift: its lowest bits are n.
  static Floats power_of_2(Floats shifted) { return as_floats((as_words(shifted) << 23) + 0x3F800000U); }
};

}  // namespace kpt::kernels
