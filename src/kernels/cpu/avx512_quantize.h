// Quantizing rows to int8 with AVX-512. See vector_math.h for `Isa`.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "kernels/cpu/matrix_kernel.h"
#include "kernels/cpu/pack_input.h"

namespace kpt::kernels {

template <typename Isa>
struct Avx512Quantize {
  using Generic = PackInput<Isa>;

  static void scale_rows(const InputRows& input, float* row_scales) {
    if (input.type == ElementType::kInt8) return Generic::int8_scales(input, row_scales);
    for (int row = 0; row < input.count; ++row) {
      const float greatest = input.type == ElementType::kFloat32
                                 ? greatest_magnitude(static_cast<const float*>(input.rows[row]), input.depth)
                                 : greatest_magnitude(static_cast<const std::uint16_t*>(input.rows[row]), input.depth);
      row_scales[row] = greatest <= 3.4028234663852886e38F ? greatest / 127.0F : __builtin_nanf("");
    }
  }

  // Elements from `first` on of a row of float32 or bfloat16.
  static void quantize(const InputRows& input, int row, std::int64_t first, std::int64_t count, float inverse,
                       std::int8_t* target) {
    const void* source = input.rows[row];
    if (input.type == ElementType::kFloat32) {
      return quantize(static_cast<const float*>(source) + first, count, inverse, target);
    }
    quantize(static_cast<const std::uint16_t*>(source) + first, count, inverse, target);
  }
  // Writes whole vectors: up to 15 bytes more.
  template <typename Element>
  static void quantize(const Element* source, std::int64_t count, float inverse, std::int8_t* target) {
    const __m512 factor = _mm512_set1_ps(inverse);
    std::int64_t k = 0;
    for (; k + 64 <= count; k += 64) _mm512_storeu_si512(target + k, quantize_64(source + k, factor));
    for (; k < count; k += 16) {
      const __m512i steps = to_steps(load(source + k, mask_of(count - k)), factor);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(target + k), _mm512_cvtepi32_epi8(steps));
    }
  }

  // 64 elements as bytes.
  template <typename Element>
  static __m512i quantize_64(const Element* source, __m512 factor) {
    __m512i steps[4];
    for (std::ptrdiff_t i = 0; i < 4; ++i) steps[i] = to_steps(load(source + 16 * i), factor);
    return join(steps);
  }
  // At most 64, zeros behind them.
  template <typename Element>
  static __m512i quantize_part(const Element* source, std::int64_t count, __m512 factor) {
    __m512i steps[4] = {};
    for (std::ptrdiff_t i = 0; 16 * i < count; ++i) {
      steps[i] = to_steps(load(source + 16 * i, mask_of(count - 16 * i)), factor);
    }
    return join(steps);
  }

  static void quantize_row(const InputRows& input, float scale, std::int8_t* target) {
    if (input.type == ElementType::kInt8) return Generic::quantize_row(input, scale, target);
    const std::int64_t whole = input.depth / 16 * 16;
    quantize(input, 0, 0, whole, Generic::inverse_of(scale), target);
    InputRows rest = input;
    rest.rows[0] =
        static_cast<const char*>(input.rows[0]) + whole * static_cast<std::int64_t>(element_bytes(input.type));
    rest.depth = input.depth - whole;
    Generic::quantize_row(rest, scale, target + whole);
  }

 private:
  static __m512i join(const __m512i (&steps)[4]) {
    const __m512i low = _mm512_packs_epi32(steps[0], steps[1]);
    const __m512i high = _mm512_packs_epi32(steps[2], steps[3]);
    // Packing goes by parts of 128 bits: fours of elements 0, 16, 32, 48, then 4, 20, …
    const __m512i order = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
    return _mm512_permutexvar_epi32(order, _mm512_packs_epi16(low, high));
  }

  static __m512 widen(__m256i halves) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
  }
  static __m512 load(const float* source) { return _mm512_loadu_ps(source); }
  static __m512 load(const std::uint16_t* source) {
    return widen(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(source)));
  }
  static __m512 load(const float* source, __mmask16 mask) { return _mm512_maskz_loadu_ps(mask, source); }
  static __m512 load(const std::uint16_t* source, __mmask16 mask) {
    return widen(_mm256_maskz_loadu_epi16(mask, source));
  }
  static __mmask16 mask_of(std::int64_t count) {
    return static_cast<__mmask16>(count >= 16 ? 0xFFFF : (1U << count) - 1);
  }
  static __m512i to_steps(__m512 values, __m512 factor) { return _mm512_cvtps_epi32(_mm512_mul_ps(values, factor)); }

  // As integers the magnitudes of floats order like the floats, with NaN above infinity.
  template <typename Element>
  static float greatest_magnitude(const Element* source, std::int64_t count) {
    const __m512i magnitude = _mm512_set1_epi32(0x7FFFFFFF);
    __m512i greatest[4] = {};
    std::int64_t k = 0;
    for (; k + 64 <= count; k += 64) {
      for (std::ptrdiff_t i = 0; i < 4; ++i) {
        const __m512i bits = _mm512_and_si512(_mm512_castps_si512(load(source + k + 16 * i)), magnitude);
        greatest[i] = _mm512_max_epi32(greatest[i], bits);
      }
    }
    for (; k < count; k += 16) {
      const __m512i bits = _mm512_castps_si512(load(source + k, mask_of(count - k)));
      greatest[0] = _mm512_max_epi32(greatest[0], _mm512_and_si512(bits, magnitude));
    }
    const std::int32_t most = _mm512_reduce_max_epi32(
        _mm512_max_epi32(_mm512_max_epi32(greatest[0], greatest[1]), _mm512_max_epi32(greatest[2], greatest[3])));
    float value;
    std::memcpy(&value, &most, sizeof(value));
    return value;
  }
};

}  // namespace kpt::kernels
