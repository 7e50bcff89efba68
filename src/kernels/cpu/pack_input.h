// Packing of A's panels, for every instruction set. See vector_math.h for `Isa`, matrix_kernel.h for the layout.
#pragma once

#if defined(__AVX__)
#include <immintrin.h>
#endif

#include <cstdint>
#include <cstring>

#include "kernels/cpu/matrix_kernel.h"
#include "kernels/cpu/vector_math.h"

namespace kpt::kernels {

template <typename Isa>
struct PackInput {
  // float32 panels of kRows rows (a multiple of 4), units of one element.
  template <std::ptrdiff_t kRows>
  static void float32(const InputRows& input, void* panel, const float* /*row_scales*/) {
    if (input.type == ElementType::kFloat32) {
      transpose<kRows, false>(input, static_cast<float*>(panel));
    } else {
      transpose<kRows, true>(input, static_cast<float*>(panel));
    }
  }

  // The same, every element rounded to bfloat16 first: float products that equal bfloat16 ones.
  template <std::ptrdiff_t kRows>
  static void rounded_float32(const InputRows& input, void* panel, const float* /*row_scales*/) {
    auto* target = static_cast<float*>(panel);
    for (int row = 0; row < input.count; ++row) {
      for (std::int64_t first = 0; first < input.depth; first += kChunk) {
        const std::int64_t count = chunk_at(input, first);
        float floats[kChunk];
        std::uint16_t halves[kChunk];
        to_bfloat16(input, row, first, count, floats, halves);
        for (std::int64_t k = 0; k < count; ++k) target[(first + k) * kRows + row] = widen(halves[k]);
      }
    }
  }

  // bfloat16 panels, units of kDepth elements.
  template <std::ptrdiff_t kRows, std::ptrdiff_t kDepth>
  static void bfloat16(const InputRows& input, void* panel, const float* /*row_scales*/) {
    for (int row = 0; row < input.count; ++row) {
      for (std::int64_t first = 0; first < input.depth; first += kChunk) {
        const std::int64_t count = chunk_at(input, first);
        float floats[kChunk];
        std::uint16_t halves[kChunk];
        to_bfloat16(input, row, first, count, floats, halves);
        place<kRows, kDepth>(halves, first, count, row, std::uint16_t{0}, static_cast<std::uint16_t*>(panel));
      }
    }
  }

  // The step that takes the row's greatest magnitude to 127. A row with an infinity or a NaN gets NaN, so that all its
  // results are NaN.
  static void int8_scales(const InputRows& input, float* row_scales) {
    for (int row = 0; row < input.count; ++row) {
      if (input.type == ElementType::kInt8) {
        row_scales[row] = input.scales[row];
        continue;
      }
      const float magnitude = greatest_magnitude(input, row);
      row_scales[row] = magnitude <= 3.4028234663852886e38F ? magnitude / 127.0F : __builtin_nanf("");
    }
  }

  // What quantized elements are multiplied with: zero for rows of zeros, for broken ones, and for rows so small that
  // nothing is left either way.
  static float inverse_of(float scale) {
    const float inverse = 1.0F / scale;
    return inverse <= 3.4028234663852886e38F ? inverse : 0.0F;
  }

  // Quantizes to [-127, 127] and stores q + kShift as Element.
  template <std::ptrdiff_t kRows, std::ptrdiff_t kDepth, typename Element, int kShift>
  static void int8(const InputRows& input, void* panel, const float* row_scales) {
    for (int row = 0; row < input.count; ++row) {
      for (std::int64_t first = 0; first < input.depth; first += kChunk) {
        const std::int64_t count = chunk_at(input, first);
        Element quantized[kChunk];
        quantize<kShift>(input, row, first, count, row_scales[row], quantized);
        place<kRows, kDepth>(quantized, first, count, row, static_cast<Element>(kShift), static_cast<Element*>(panel));
      }
    }
  }

  static void quantize_row(const InputRows& input, float scale, std::int8_t* target) {
    for (std::int64_t first = 0; first < input.depth; first += kChunk) {
      quantize<0>(input, 0, first, chunk_at(input, first), scale, target + first);
    }
  }

 private:
  static constexpr std::int64_t kChunk = 256;  // a multiple of every depth

  typedef float Four __attribute__((vector_size(16)));

  static std::int64_t chunk_at(const InputRows& input, std::int64_t first) {
    const std::int64_t left = input.depth - first;
    return left < kChunk ? left : kChunk;
  }
  static std::int32_t bits(float value) {
    std::int32_t result;
    std::memcpy(&result, &value, sizeof(result));
    return result;
  }
  static float widen(std::uint16_t half) {
    const std::uint32_t word = static_cast<std::uint32_t>(half) << 16;
    float result;
    std::memcpy(&result, &word, sizeof(result));
    return result;
  }
  static std::uint16_t round_to_half(float value) {
    std::uint32_t word;
    std::memcpy(&word, &value, sizeof(word));
    const std::uint32_t rounded = (word + 0x7FFFU + ((word >> 16) & 1U)) >> 16;
    return static_cast<std::uint16_t>((word & 0x7FFFFFFFU) > 0x7F800000U ? (word >> 16) | 0x40U : rounded);
  }

  static void load_floats(const InputRows& input, int row, std::int64_t first, std::int64_t count, float* target) {
    if (input.type == ElementType::kFloat32) {
      std::memcpy(target, static_cast<const float*>(input.rows[row]) + first, static_cast<std::size_t>(count) * 4);
      return;
    }
    const std::uint16_t* source = static_cast<const std::uint16_t*>(input.rows[row]) + first;
    for (std::int64_t k = 0; k < count; ++k) target[k] = widen(source[k]);
  }
  static void to_bfloat16(const InputRows& input, int row, std::int64_t first, std::int64_t count, float* floats,
                          std::uint16_t* halves) {
    if (input.type == ElementType::kBfloat16) {
      std::memcpy(halves, static_cast<const std::uint16_t*>(input.rows[row]) + first,
                  static_cast<std::size_t>(count) * 2);
      return;
    }
    load_floats(input, row, first, count, floats);
    for (std::int64_t k = 0; k < count; ++k) halves[k] = round_to_half(floats[k]);
  }

  // At most kChunk elements of a row.
  template <int kShift, typename Element>
  static void quantize(const InputRows& input, int row, std::int64_t first, std::int64_t count, float scale,
                       Element* target) {
    if (input.type == ElementType::kInt8) {
      const std::int8_t* source = static_cast<const std::int8_t*>(input.rows[row]) + first;
      for (std::int64_t k = 0; k < count; ++k) target[k] = static_cast<Element>(std::int32_t{source[k]} + kShift);
      return;
    }
    const float inverse = inverse_of(scale);
    float floats[kChunk];
    load_floats(input, row, first, count, floats);
    for (std::int64_t k = 0; k < count; ++k) {
      // rint() and not the addition of 1.5 · 2^23: a compiler may fuse that with the product, and then other
      // kernels round another way where an element lies between two steps.
      const float scaled = inverse > 0.0F ? floats[k] * inverse : 0.0F;
      target[k] = static_cast<Element>(static_cast<std::int32_t>(__builtin_rintf(scaled)) + kShift);
    }
  }

  // As integers the magnitudes of floats order like the floats, with NaN above infinity.
  static float greatest_magnitude(const InputRows& input, int row) {
    std::int32_t greatest = 0;
    if (input.type == ElementType::kFloat32) {
      const auto* source = static_cast<const float*>(input.rows[row]);
      for (std::int64_t k = 0; k < input.depth; ++k) {
        const std::int32_t magnitude = bits(source[k]) & 0x7FFFFFFF;
        greatest = magnitude > greatest ? magnitude : greatest;
      }
    } else {
      const auto* source = static_cast<const std::uint16_t*>(input.rows[row]);
      for (std::int64_t k = 0; k < input.depth; ++k) {
        const std::int32_t magnitude = (source[k] & 0x7FFF) << 16;
        greatest = magnitude > greatest ? magnitude : greatest;
      }
    }
    float result;
    std::memcpy(&result, &greatest, sizeof(result));
    return result;
  }

  // Spreads a chunk of one row over its units; the last unit is filled up with `padding`.
  template <std::ptrdiff_t kRows, std::ptrdiff_t kDepth, typename Element>
  static void place(const Element* source, std::int64_t first, std::int64_t count, int row, Element padding,
                    Element* panel) {
    Element* target = panel + (first / kDepth * kRows + row) * kDepth;
    std::int64_t k = 0;
    for (; k + kDepth <= count; k += kDepth, target += kRows * kDepth) {
      std::memcpy(target, source + k, sizeof(Element) * kDepth);
    }
    if (k == count) return;
    for (int d = 0; d < kDepth; ++d) target[d] = k + d < count ? source[k + d] : padding;
  }

  template <std::ptrdiff_t kRows, bool kHalves>
  static Four load_four(const InputRows& input, int row, std::int64_t k) {
    Four value;
    if constexpr (kHalves) {
      const std::uint16_t* source = static_cast<const std::uint16_t*>(input.rows[row]) + k;
      value = Four{widen(source[0]), widen(source[1]), widen(source[2]), widen(source[3])};
    } else {
      std::memcpy(&value, static_cast<const float*>(input.rows[row]) + k, sizeof(value));
    }
    return value;
  }

#if defined(__AVX__)
  // Four elements of rows `row` and `row` + 4.
  template <bool kHalves>
  static __m256 load_two(const InputRows& input, int row, std::int64_t k) {
    const __m128 low = load_four<8, kHalves>(input, row, k);
    const __m128 high = load_four<8, kHalves>(input, row + 4, k);
    return _mm256_insertf128_ps(_mm256_castps128_ps256(low), high, 1);
  }

  // All of a panel of eight rows, where a vector holds a column of it: half the shuffles of two times four rows.
  template <bool kHalves>
  static void transpose_eight(const InputRows& given, float* panel) {
    const InputRows input = given;  // of our own: what is stored could be one of its pointers otherwise
    std::int64_t k = 0;
    for (; k + 4 <= input.depth; k += 4, panel += 32) {
      const __m256 a = load_two<kHalves>(input, 0, k);
      const __m256 b = load_two<kHalves>(input, 1, k);
      const __m256 c = load_two<kHalves>(input, 2, k);
      const __m256 d = load_two<kHalves>(input, 3, k);
      const __m256 ab_low = _mm256_unpacklo_ps(a, b);
      const __m256 ab_high = _mm256_unpackhi_ps(a, b);
      const __m256 cd_low = _mm256_unpacklo_ps(c, d);
      const __m256 cd_high = _mm256_unpackhi_ps(c, d);
      _mm256_storeu_ps(panel, _mm256_shuffle_ps(ab_low, cd_low, 0x44));
      _mm256_storeu_ps(panel + 8, _mm256_shuffle_ps(ab_low, cd_low, 0xEE));
      _mm256_storeu_ps(panel + 16, _mm256_shuffle_ps(ab_high, cd_high, 0x44));
      _mm256_storeu_ps(panel + 24, _mm256_shuffle_ps(ab_high, cd_high, 0xEE));
    }
    for (; k < input.depth; ++k, panel += 8) {
      for (int row = 0; row < 8; ++row) panel[row] = element<kHalves>(input, row, k);
    }
  }
#endif

  template <std::ptrdiff_t kRows, bool kHalves>
  static void transpose(const InputRows& input, float* panel) {
    static_assert(kRows % 4 == 0);
#if defined(__AVX__)
    if constexpr (kRows == 8) {
      if (input.count == kRows) return transpose_eight<kHalves>(input, panel);
    }
#endif
    int row = 0;
    for (; row + 4 <= input.count; row += 4) {
      std::int64_t k = 0;
      for (; k + 4 <= input.depth; k += 4) {
        const Four a = load_four<kRows, kHalves>(input, row, k);
        const Four b = load_four<kRows, kHalves>(input, row + 1, k);
        const Four c = load_four<kRows, kHalves>(input, row + 2, k);
        const Four d = load_four<kRows, kHalves>(input, row + 3, k);
        const Four ac_low = __builtin_shufflevector(a, c, 0, 4, 1, 5);
        const Four bd_low = __builtin_shufflevector(b, d, 0, 4, 1, 5);
        const Four ac_high = __builtin_shufflevector(a, c, 2, 6, 3, 7);
        const Four bd_high = __builtin_shufflevector(b, d, 2, 6, 3, 7);
        const Four columns[4] = {__builtin_shufflevector(ac_low, bd_low, 0, 4, 1, 5),
                                 __builtin_shufflevector(ac_low, bd_low, 2, 6, 3, 7),
                                 __builtin_shufflevector(ac_high, bd_high, 0, 4, 1, 5),
                                 __builtin_shufflevector(ac_high, bd_high, 2, 6, 3, 7)};
        for (std::ptrdiff_t i = 0; i < 4; ++i) std::memcpy(panel + (k + i) * kRows + row, &columns[i], sizeof(Four));
      }
      for (; k < input.depth; ++k) {
        for (int r = row; r < row + 4; ++r) panel[k * kRows + r] = element<kHalves>(input, r, k);
      }
    }
    for (; row < input.count; ++row) {
      for (std::int64_t k = 0; k < input.depth; ++k) panel[k * kRows + row] = element<kHalves>(input, row, k);
    }
  }

  template <bool kHalves>
  static float element(const InputRows& input, int row, std::int64_t k) {
    if constexpr (kHalves) return widen(static_cast<const std::uint16_t*>(input.rows[row])[k]);
    return static_cast<const float*>(input.rows[row])[k];
  }
};

}  // namespace kpt::kernels
