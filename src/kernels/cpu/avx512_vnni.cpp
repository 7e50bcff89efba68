#include <immintrin.h>

#include <cstring>

#include "kernels/cpu/avx512_int8_products.h"
#include "kernels/cpu/avx512_quantize.h"
#include "kernels/cpu/avx512_tile.h"
#include "kernels/cpu/finish.h"
#include "kernels/cpu/kernel_list.h"

namespace kpt::kernels {
namespace {

struct Vnni : Avx512Int8Products<Vnni> {
  static constexpr int kColumns = 48;

  static void add_all(std::int64_t units, const char* input, const char* weights, void* sums, bool accumulate) {
    const void* next = nullptr;
    KPT_AVX512_TILE(KPT_TILE_UNIT, "vpdpbusd", KPT_TILE_ADD_INTS, KPT_TILE_NOTHING_AHEAD, units, input, weights, sums,
                    next, accumulate);
  }
  static void add_all_ahead(std::int64_t units, const char* input, const char* weights, void* sums, const void* next,
                            bool accumulate) {
    KPT_AVX512_TILE(KPT_TILE_UNIT, "vpdpbusd", KPT_TILE_ADD_INTS, KPT_TILE_AHEAD, units, input, weights, sums, next,
                    accumulate);
  }
};

constexpr std::ptrdiff_t kRows = 8;
constexpr std::ptrdiff_t kUnitBytes = kRows * 4;
using Quantize = Avx512Quantize<Vnni>;

// Eight units of eight rows, [row][unit] to [unit][row], with the shift added.
void interleave(const std::int8_t* const (&rows)[kRows], std::int64_t first, std::uint8_t* target) {
  const __m256i shift = _mm256_set1_epi8(static_cast<char>(Vnni::kShift));
  __m256i row[kRows];
  for (std::ptrdiff_t i = 0; i < kRows; ++i) {
    row[i] = _mm256_xor_si256(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(rows[i] + first)), shift);
  }
  __m256i pairs[kRows];  // of rows 2i and 2i + 1: units 0, 1 and 4, 5, then units 2, 3 and 6, 7
  for (std::ptrdiff_t i = 0; i < kRows; i += 2) {
    pairs[i] = _mm256_unpacklo_epi32(row[i], row[i + 1]);
    pairs[i + 1] = _mm256_unpackhi_epi32(row[i], row[i + 1]);
  }
  for (std::ptrdiff_t half = 0; half < 2; ++half) {
    const __m256i even_low = _mm256_unpacklo_epi64(pairs[half], pairs[half + 2]);
    const __m256i odd_low = _mm256_unpackhi_epi64(pairs[half], pairs[half + 2]);
    const __m256i even_high = _mm256_unpacklo_epi64(pairs[half + 4], pairs[half + 6]);
    const __m256i odd_high = _mm256_unpackhi_epi64(pairs[half + 4], pairs[half + 6]);
    const auto put = [&](std::ptrdiff_t unit, __m256i value) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(target + unit * kUnitBytes), value);
    };
    put(2 * half, _mm256_permute2x128_si256(even_low, even_high, 0x20));
    put(2 * half + 1, _mm256_permute2x128_si256(odd_low, odd_high, 0x20));
    put(2 * half + 4, _mm256_permute2x128_si256(even_low, even_high, 0x31));
    put(2 * half + 5, _mm256_permute2x128_si256(odd_low, odd_high, 0x31));
  }
}

void pack_rows(const InputRows& input, void* panel, const float* row_scales) {
  constexpr std::int64_t kChunk = 512;
  alignas(64) std::int8_t bytes[kRows][kChunk];
  if (input.count < kRows) std::memset(bytes, 0, sizeof(bytes));
  auto* target = static_cast<std::uint8_t*>(panel);
  for (std::int64_t first = 0; first < input.depth; first += kChunk) {
    const std::int64_t left = input.depth - first;
    const std::int64_t count = left < kChunk ? left : kChunk;
    const std::int8_t* rows[kRows];
    for (int row = 0; row < kRows; ++row) {
      rows[row] = bytes[row];
      if (row >= input.count) continue;
      if (input.type == ElementType::kInt8) {
        rows[row] = static_cast<const std::int8_t*>(input.rows[row]) + first;
      } else {
        Quantize::quantize(input, row, first, count, Quantize::Generic::inverse_of(row_scales[row]), bytes[row]);
      }
    }
    std::int64_t k = 0;
    for (; k + 32 <= count; k += 32) interleave(rows, k, target + (first + k) * kRows);
    for (; k < count; k += 4) {
      const auto part = static_cast<std::size_t>(count - k < 4 ? count - k : 4);
      for (std::ptrdiff_t row = 0; row < kRows; ++row) {
        std::uint8_t four[4] = {Vnni::kShift, Vnni::kShift, Vnni::kShift, Vnni::kShift};
        for (std::size_t i = 0; i < part; ++i) {
          four[i] = static_cast<std::uint8_t>(rows[row][k + static_cast<std::int64_t>(i)] + Vnni::kShift);
        }
        std::memcpy(target + (first + k) * kRows + row * 4, four, sizeof(four));
      }
    }
  }
}

}  // namespace

MatrixKernel avx512_vnni_kernel() {
  MatrixKernel kernel;
  kernel.name = "int8 AVX-512 VNNI 8x48";
  kernel.rows = kRows;
  kernel.columns = Vnni::kColumns;
  kernel.depth = 4;
  kernel.input_bytes = 1;
  kernel.weight_bytes = 1;
  kernel.input_shift = Vnni::kShift;
  kernel.depth_block = 768;
  kernel.scale_rows = &Quantize::scale_rows;
  kernel.quantize_row = &Quantize::quantize_row;
  kernel.pack_input = &pack_rows;
  kernel.multiply = &Avx512Tile<Vnni>::multiply;
  kernel.multiply_ahead = &Avx512Tile<Vnni>::multiply_ahead;
  kernel.ahead_bytes = Avx512Tile<Vnni>::kAheadBytes;
  kernel.multiply_narrow = &Avx512Tile<Vnni>::multiply_narrow;
  kernel.narrow_columns = 32;
  kernel.finish = &Finish<Vnni, std::int32_t>::run;
  return kernel;
}

}  // namespace kpt::kernels
