// The tile of float32 convolutions on AVX-512: 14 rows, two vectors of 16 columns, A in units of eight elements, which
// are copied and not transposed. Products have another one first (list_kernels()). See vector_math.h for `Isa`: a type
// of the including source's own.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "kernels/cpu/matrix_kernel.h"

namespace kpt::kernels {

template <typename Isa>
struct Float32Tile {
  static constexpr int kRows = 14;
  static constexpr int kColumns = 32;
  static constexpr std::ptrdiff_t kDepth = 8;
  static constexpr int kAheadBytes = 256;
  static constexpr std::ptrdiff_t kInputStep = kRows * kDepth;
  static constexpr std::ptrdiff_t kWeightStep = kColumns * kDepth;
  // Rows whose number is loaded before it meets both vectors. Those of the others are operands in memory, which are
  // fewer instructions and more loads: 2 of 14 such rows gave 88 % of the peak, 10 of 14 gave 97 %.
  static constexpr std::size_t kLoadedRows = 10;

  // [unit][row][8], the last unit filled up with zeros.
  static void pack_input(const InputRows& given, void* panel, const float* /*row_scales*/) {
    const InputRows input = given;  // of our own: what is stored could be one of its pointers otherwise
    const std::int64_t whole = input.depth / kDepth * kDepth;
    const auto rest = static_cast<__mmask8>((1U << (input.depth - whole)) - 1);
    for (int row = 0; row < input.count; ++row) {
      float* target = static_cast<float*>(panel) + row * kDepth;
      const auto copy = [&](const auto* source) {
        for (std::int64_t k = 0; k < whole; k += kDepth, target += kInputStep) {
          _mm256_storeu_ps(target, load_eight(source + k, 0xFF));
        }
        if (rest != 0) _mm256_storeu_ps(target, load_eight(source + whole, rest));
      };
      if (input.type == ElementType::kFloat32) {
        copy(static_cast<const float*>(input.rows[row]));
      } else {
        copy(static_cast<const std::uint16_t*>(input.rows[row]));
      }
    }
  }

  static void multiply(std::int64_t units, const void* input, const void* weights, void* tile, int rows,
                       bool accumulate) {
    FinishedRows sums;
    sums.tile = tile;
    sums.rows = rows;
    run<2, false>(units, input, weights, sums, weights, accumulate);
  }
  // For up to 16 columns.
  static void multiply_narrow(std::int64_t units, const void* input, const void* weights, void* tile, int rows,
                              int /*columns*/, bool accumulate) {
    FinishedRows sums;
    sums.tile = tile;
    sums.rows = rows;
    run<1, false>(units, input, weights, sums, weights, accumulate);
  }
  static void multiply_streamed(std::int64_t units, const void* input, const void* weights, const FinishedRows& rows,
                                const void* next, bool accumulate, bool finishes) {
    if (rows.columns > 16) {
      return finishes ? run<2, true>(units, input, weights, rows, next, accumulate)
                      : run<2, false>(units, input, weights, rows, next, accumulate);
    }
    return finishes ? run<1, true>(units, input, weights, rows, next, accumulate)
                    : run<1, false>(units, input, weights, rows, next, accumulate);
  }

 private:
  static __m256 load_eight(const float* source, __mmask8 mask) { return _mm256_maskz_loadu_ps(mask, source); }
  static __m256 load_eight(const std::uint16_t* source, __mmask8 mask) {
    const __m256i words = _mm256_cvtepu16_epi32(_mm_maskz_loadu_epi16(mask, source));
    return _mm256_castsi256_ps(_mm256_slli_epi32(words, 16));
  }

  template <std::size_t kCount, typename Body>
  [[gnu::always_inline]] static inline void each(const Body& body) {
    [&]<std::size_t... kIndex>(std::index_sequence<kIndex...>) __attribute__((always_inline)) {
      (body(std::integral_constant<std::size_t, kIndex>{}), ...);
    }(std::make_index_sequence<kCount>{});
  }

  [[gnu::always_inline]] static inline void add_product(__m512& sum, const float* input, __m512 weights) {
    __asm__("vfmadd231ps %[input]%{1to16%}, %[weights], %[sum]"
            : [sum] "+v"(sum)
            : [input] "m"(*input), [weights] "v"(weights));
  }

  // The least height that has the rows; what the rows beyond hold does not matter.
  template <std::size_t kParts, bool kFinish>
  static void run(std::int64_t units, const void* input, const void* weights, const FinishedRows& rows,
                  const void* next, bool accumulate) {
    const auto* a = static_cast<const float*>(input);
    const auto* w = static_cast<const float*>(weights);
    const auto* n = static_cast<const char*>(next);
    if (rows.rows > 10) return multiply_rows<14, kParts, kFinish>(units, a, w, rows, n, accumulate);
    if (rows.rows > 7) return multiply_rows<10, kParts, kFinish>(units, a, w, rows, n, accumulate);
    if (rows.rows > 4) return multiply_rows<7, kParts, kFinish>(units, a, w, rows, n, accumulate);
    if (rows.rows > 2) return multiply_rows<4, kParts, kFinish>(units, a, w, rows, n, accumulate);
    if (rows.rows > 1) return multiply_rows<2, kParts, kFinish>(units, a, w, rows, n, accumulate);
    multiply_rows<1, kParts, kFinish>(units, a, w, rows, n, accumulate);
  }

  // Few sums come in several sets, so that the chains of dependent additions fill the pipes. Written without loops over
  // the sums: compilers that unroll those late write the sums to the stack in every round (g++ 12).
  template <std::size_t kCount, std::size_t kParts, bool kFinish>
  static void multiply_rows(std::int64_t units, const float* input, const float* weights, const FinishedRows& rows,
                            const char* next, bool accumulate) {
    constexpr std::size_t kSums = kCount * kParts;
    constexpr std::size_t kSets = kSums >= 7 ? 1 : kSums >= 4 ? 2 : 4;
    __m512 sums[kSets * kSums];
    each<kSets * kSums>([&](auto i) __attribute__((always_inline)) { sums[i] = _mm512_setzero_ps(); });
    for (; units > 0; --units, input += kInputStep, weights += kWeightStep, next += kAheadBytes) {
      each<kDepth>([&](auto k) __attribute__((always_inline)) {
        if constexpr (kCount > 2 && decltype(k)::value % 2 == 0)
          _mm_prefetch(next + decltype(k)::value * 32, _MM_HINT_T1);
        __m512 columns[kParts];
        each<kParts>([&](auto part) __attribute__((always_inline)) {
          columns[part] = _mm512_loadu_ps(weights + k * kColumns + part * 16);
        });
        each<kCount>([&](auto row) __attribute__((always_inline)) {
          constexpr std::size_t kFirst = decltype(k)::value % kSets * kSums + decltype(row)::value * kParts;
          const float* number = input + row * kDepth + k;
          if constexpr (kParts > 1 && row < kLoadedRows) {
            const __m512 factor = _mm512_set1_ps(*number);
            each<kParts>([&](auto part) __attribute__((always_inline)) {
              sums[kFirst + part] = _mm512_fmadd_ps(factor, columns[part], sums[kFirst + part]);
            });
          } else {
            each<kParts>([&](auto part) __attribute__((always_inline)) {
              add_product(sums[kFirst + part], number, columns[part]);
            });
          }
        });
      });
    }
    each<(kSets - 1) * kSums>(
        [&](auto i) __attribute__((always_inline)) { sums[i % kSums] = sums[i % kSums] + sums[i + kSums]; });
    if constexpr (kFinish) {
      finish<kCount, kParts>(sums, rows, accumulate);
    } else {
      auto* tile = static_cast<float*>(rows.tile);
      each<kCount>([&](auto row) __attribute__((always_inline)) {
        if (static_cast<std::int64_t>(row) >= rows.rows) return;
        each<kParts>([&](auto part) __attribute__((always_inline)) {
          float* target = tile + row * kColumns + part * 16;
          const __m512 sum = sums[row * kParts + part];
          _mm512_storeu_ps(target, accumulate ? sum + _mm512_loadu_ps(target) : sum);
        });
      });
    }
  }

  template <std::size_t kCount, std::size_t kParts>
  [[gnu::always_inline]] static inline void finish(const __m512* sums, const FinishedRows& rows, bool accumulate) {
    const auto* tile = static_cast<const float*>(rows.tile);
    const auto* residual = static_cast<const float*>(rows.residual);
    auto* out = static_cast<float*>(rows.out);
    // A NaN is the second operand, which stays.
    const Limits limits = limits_of(rows.activation);
    const __m512 least = _mm512_set1_ps(limits.least);
    const __m512 greatest = _mm512_set1_ps(limits.greatest);
    const auto last = static_cast<__mmask16>((1U << (rows.columns - static_cast<int>(kParts - 1) * 16)) - 1);
    each<kCount>([&](auto row) __attribute__((always_inline)) {
      if (static_cast<std::int64_t>(row) >= rows.rows) return;
      each<kParts>([&](auto part) __attribute__((always_inline)) {
        constexpr std::size_t kColumn = part * 16;
        const __mmask16 mask = part + 1 < kParts ? static_cast<__mmask16>(0xFFFF) : last;
        __m512 x = sums[row * kParts + part];
        if (accumulate) x += _mm512_loadu_ps(tile + row * kColumns + kColumn);
        if (rows.bias != nullptr) x += _mm512_loadu_ps(rows.bias + kColumn);
        if (residual != nullptr) x += _mm512_maskz_loadu_ps(mask, residual + kColumn);
        x = _mm512_min_ps(greatest, _mm512_max_ps(least, x));
        _mm512_mask_storeu_ps(out + kColumn, mask, x);
      });
      if (residual != nullptr) residual += rows.residual_stride;
      out += rows.out_stride;
    });
  }
};

}  // namespace kpt::kernels
