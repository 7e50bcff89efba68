// The tile of NEON's matrix instructions (BFMMLA, SMMLA): a vector of sums is a block of 2 × 2. See vector_math.h for
// `Isa`, which has kRows, kColumns, the vector types Input and Sum, and
//   static Input load(const void* address);
//   static Sum add_product(Sum sum, Input rows, Input columns);
//   static void add_all(std::int64_t units, const char* input, const char* weights, Sum* blocks): the products of a
//     whole tile, blocks[4 pairs of rows][6 pairs of columns]; KPT_NEON_MATRIX_TILE writes its body.
#pragma once

#include <arm_neon.h>

// Sums in v0 to v23, four pairs of rows of A in v24 to v27, weights in v28 to v30, three pairs of columns at a time. In
// assembly, because the order of loads and products decides: with the order that compilers choose, Neoverse-V1 keeps
// only two of its four pipes busy.
#define KPT_MATRIX_COLUMN(operation, type, a, b, c, d, weights)                                                     \
  operation " v" #a ".4s, v24." type ", v" #weights "." type "\n" operation " v" #b ".4s, v25." type ", v" #weights \
            "." type "\n" operation " v" #c ".4s, v26." type ", v" #weights "." type "\n" operation " v" #d         \
            ".4s, v27." type ", v" #weights "." type "\n"
#define KPT_MATRIX_UNIT(operation, type) \
  "ldp q24, q25, [%[input]], #64\n"                                                                  \
  "ldp q26, q27, [%[input], #-32]\n"                                                                 \
  "ldp q28, q29, [%[weights]], #96\n"                                                                \
  "ldur q30, [%[weights], #-64]\n" KPT_MATRIX_COLUMN(operation, type, 0, 6, 12, 18, 28)              \
  KPT_MATRIX_COLUMN(operation, type, 1, 7, 13, 19, 29) KPT_MATRIX_COLUMN(operation, type, 2, 8, 14, 20, 30) \
  "ldp q28, q29, [%[weights], #-48]\n"                                                               \
  "ldur q30, [%[weights], #-16]\n" KPT_MATRIX_COLUMN(operation, type, 3, 9, 15, 21, 28)              \
  KPT_MATRIX_COLUMN(operation, type, 4, 10, 16, 22, 29) KPT_MATRIX_COLUMN(operation, type, 5, 11, 17, 23, 30)
#define KPT_ZERO(a, b, c, d) "movi v" #a ".4s, #0\nmovi v" #b ".4s, #0\nmovi v" #c ".4s, #0\nmovi v" #d ".4s, #0\n"
#define KPT_STORE(a, b, c, d, offset, next)     \
  "stp q" #a ", q" #b ", [%[blocks], #" #offset \
  "]\n"                                         \
  "stp q" #c ", q" #d ", [%[blocks], #" #next "]\n"
#define KPT_NEON_MATRIX_TILE(operation, type, units, input, weights, blocks) \
  __asm__ volatile(                                                                                                 \
      KPT_ZERO(0, 1, 2, 3) KPT_ZERO(4, 5, 6, 7) KPT_ZERO(8, 9, 10, 11) KPT_ZERO(12, 13, 14, 15)                      \
      KPT_ZERO(16, 17, 18, 19) KPT_ZERO(20, 21, 22, 23)                                                             \
      "tbz %[units], #0, 2f\n" KPT_MATRIX_UNIT(operation, type)                                                     \
      "2:\n"                                                                                                        \
      "lsr %[units], %[units], #1\n"                                                                                \
      "cbz %[units], 3f\n"                                                                                          \
      "1:\n" KPT_MATRIX_UNIT(operation, type) KPT_MATRIX_UNIT(operation, type)                                      \
      "subs %[units], %[units], #1\n"                                                                               \
      "b.ne 1b\n"                                                                                                   \
      "3:\n" KPT_STORE(0, 1, 2, 3, 0, 32) KPT_STORE(4, 5, 6, 7, 64, 96) KPT_STORE(8, 9, 10, 11, 128, 160)           \
      KPT_STORE(12, 13, 14, 15, 192, 224) KPT_STORE(16, 17, 18, 19, 256, 288)                                       \
      KPT_STORE(20, 21, 22, 23, 320, 352)                                                                           \
      : [units] "+r"(units), [input] "+r"(input), [weights] "+r"(weights)                                           \
      : [blocks] "r"(blocks)                                                                                        \
      : "memory", "cc", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13",      \
        "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28",     \
        "v29", "v30")

#include <cstdint>

namespace kpt::kernels {

template <typename Isa>
struct NeonMatrixTile {
  using Input = typename Isa::Input;
  using Sum = typename Isa::Sum;
  using Scalar = typename Isa::Scalar;
  static constexpr std::size_t kPairs = Isa::kColumns / 2;

  // Both operands come in vectors of 16 bytes: one unit of two rows.
  template <std::size_t kRowPairs>
  static inline void add_unit(Sum (&sums)[kRowPairs][kPairs], const char* input, const char* weights) {
    Input rows[kRowPairs];
    for (std::size_t r = 0; r < kRowPairs; ++r) rows[r] = Isa::load(input + r * 16);
    for (std::size_t c = 0; c < kPairs; ++c) {
      const Input columns = Isa::load(weights + c * 16);
      for (std::size_t r = 0; r < kRowPairs; ++r) sums[r][c] = Isa::add_product(sums[r][c], rows[r], columns);
    }
  }

  template <std::size_t kRowPairs>
  static void multiply_pairs(std::int64_t units, const char* input, const char* weights, Scalar* tile, int rows,
                             bool accumulate) {
    constexpr std::size_t kSets = kRowPairs == 1 ? 2 : 1;
    constexpr std::ptrdiff_t kInputStep = std::ptrdiff_t{Isa::kRows} * 8;
    constexpr std::ptrdiff_t kWeightStep = std::ptrdiff_t{Isa::kColumns} * 8;
    Sum sums[kSets][kRowPairs][kPairs] = {};
    std::int64_t unit = 0;
    for (; unit + 2 <= units; unit += 2, input += 2 * kInputStep, weights += 2 * kWeightStep) {
      __builtin_prefetch(weights + 10 * kWeightStep);
      __builtin_prefetch(weights + 10 * kWeightStep + 64);
      __builtin_prefetch(weights + 10 * kWeightStep + 128);
      add_unit<kRowPairs>(sums[0], input, weights);
      add_unit<kRowPairs>(sums[1 % kSets], input + kInputStep, weights + kWeightStep);
    }
    if (unit < units) add_unit<kRowPairs>(sums[0], input, weights);
    if constexpr (kSets == 2) {
      for (std::size_t c = 0; c < kPairs; ++c) sums[0][0][c] = Isa::add(sums[0][0][c], sums[1][0][c]);
    }
    store_blocks(sums[0], kRowPairs, tile, rows, accumulate);
  }

  static void store_blocks(const Sum (*sums)[kPairs], std::size_t row_pairs, Scalar* tile, int rows, bool accumulate) {
    for (std::size_t r = 0; r < row_pairs; ++r) {
      for (std::size_t c = 0; c < kPairs; c += 2) {
        const Sum left = sums[r][c];
        const Sum right = sums[r][c + 1];
        Scalar* target = tile + 2 * r * Isa::kColumns + 2 * c;
        Isa::store(target, Isa::upper_row(left, right), accumulate);
        if (2 * static_cast<int>(r) + 1 < rows) {
          Isa::store(target + Isa::kColumns, Isa::lower_row(left, right), accumulate);
        }
      }
    }
  }

  static void multiply_tile(std::int64_t units, const char* input, const char* weights, Scalar* tile, bool accumulate) {
    static_assert(Isa::kRows == 8 && Isa::kColumns == 12);
    Sum blocks[4][kPairs];
    Isa::add_all(units, input, weights, &blocks[0][0]);
    store_blocks(blocks, 4, tile, Isa::kRows, accumulate);
  }

  static void multiply(std::int64_t units, const void* input, const void* weights, void* tile, int rows,
                       bool accumulate) {
    const auto* a = static_cast<const char*>(input);
    const auto* w = static_cast<const char*>(weights);
    auto* out = static_cast<Scalar*>(tile);
    switch ((rows + 1) / 2) {
      case 1: return multiply_pairs<1>(units, a, w, out, rows, accumulate);
      case 2: return multiply_pairs<2>(units, a, w, out, rows, accumulate);
      default: return multiply_tile(units, a, w, out, accumulate);  // faster than three pairs alone
    }
  }
};

}  // namespace kpt::kernels
