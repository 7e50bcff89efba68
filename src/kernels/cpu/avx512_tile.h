// The tile of AVX-512: 8 rows, three vectors of 16 columns; of a panel of W with fewer columns one or two. See
// vector_math.h for `Isa`, which has the vector type Sum, the element type Scalar and, for units of four bytes per row
// and column,
//   static Sum zero();  static Sum add(Sum, Sum);  static Sum load(const Scalar*);  static void store(Scalar*, Sum);
//   static Vector load_weights(const char* address): of 16 columns;  static Vector spread(const char* input): one unit;
//   static Sum add_product(Sum sum, Vector input, Vector weights);
//   static void add_all(std::int64_t units, const char* input, const char* weights, void* sums, bool accumulate): the
//     products of a whole tile, sums[8][3]; KPT_AVX512_TILE writes its body;
//   static void add_all_ahead(…, const void* next, bool accumulate): that, and asks for kAheadBytes of `next` a unit.
#pragma once

// Weights in zmm0 to zmm2 and zmm5 to zmm7, inputs in zmm3 and zmm4, sums in zmm8 to zmm31. In assembly, because
// compilers that keep 24 sums in registers still write them to the stack in every round (g++ 12). `operation` takes
// weights, inputs and sums.
//
// Weights are loaded a unit before they are needed, inputs a row before: another thread of the same core takes half of
// the places for instructions that wait. So a unit of weights and one number of the input are read beyond the end.
#define KPT_TILE_SUMS(operation, factor, x, y, z, a, b, c)                                                          \
  operation " %%zmm" #x ", " factor ", %%zmm" #a "\n" operation " %%zmm" #y ", " factor ", %%zmm" #b "\n" operation \
            " %%zmm" #z ", " factor ", %%zmm" #c "\n"
// `here` has the row's input, the next one's is loaded into `then`.
#define KPT_TILE_ROW(operation, from, next, here, then, x, y, z, a, b, c) \
  "vbroadcastss " #from "+" #next "(%[input]), %%" then "\n" KPT_TILE_SUMS(operation, "%%" here, x, y, z, a, b, c)
// The input is an operand in memory: fewer instructions, more loads. Only for operations that may swap their factors.
#define KPT_TILE_SWAPPED(operation, from, at, x, a) \
  operation " " #from "+" #at "(%[input])%{1to16%}, %%zmm" #x ", %%zmm" #a "\n"
#define KPT_TILE_ROW_SWAPPED(operation, from, at, x, y, z, a, b, c) \
  KPT_TILE_SWAPPED(operation, from, at, x, a)                       \
  KPT_TILE_SWAPPED(operation, from, at, y, b) KPT_TILE_SWAPPED(operation, from, at, z, c)
#define KPT_TILE_WEIGHTS(from, at, x) "vmovups " #from "+" #at "(%[weights]), %%zmm" #x "\n"
// A unit with weights in x, y, z; the next one's come from `next` into p, q, r.
#define KPT_TILE_UNIT(operation, from, next, x, y, z, p, q, r)           \
  KPT_TILE_ROW(operation, from, 4, "zmm3", "zmm4", x, y, z, 8, 9, 10)    \
  KPT_TILE_ROW(operation, from, 8, "zmm4", "zmm3", x, y, z, 11, 12, 13)  \
  KPT_TILE_ROW(operation, from, 12, "zmm3", "zmm4", x, y, z, 14, 15, 16) \
  KPT_TILE_WEIGHTS(next, 0, p)                                           \
  KPT_TILE_ROW(operation, from, 16, "zmm4", "zmm3", x, y, z, 17, 18, 19) \
  KPT_TILE_ROW(operation, from, 20, "zmm3", "zmm4", x, y, z, 20, 21, 22) \
  KPT_TILE_WEIGHTS(next, 64, q)                                          \
  KPT_TILE_ROW(operation, from, 24, "zmm4", "zmm3", x, y, z, 23, 24, 25) \
  KPT_TILE_ROW(operation, from, 28, "zmm3", "zmm4", x, y, z, 26, 27, 28) \
  KPT_TILE_WEIGHTS(next, 128, r)                                         \
  KPT_TILE_ROW(operation, from, 32, "zmm4", "zmm3", x, y, z, 29, 30, 31)
// The same with two rows swapped: that fills the ports for loads beside those for products.
#define KPT_TILE_UNIT_SWAPPED(operation, from, next, x, y, z, p, q, r)   \
  KPT_TILE_ROW(operation, from, 4, "zmm3", "zmm4", x, y, z, 8, 9, 10)    \
  KPT_TILE_ROW(operation, from, 8, "zmm4", "zmm3", x, y, z, 11, 12, 13)  \
  KPT_TILE_ROW(operation, from, 16, "zmm3", "zmm4", x, y, z, 14, 15, 16) \
  KPT_TILE_WEIGHTS(next, 0, p)                                           \
  KPT_TILE_ROW_SWAPPED(operation, from, 12, x, y, z, 17, 18, 19)         \
  KPT_TILE_ROW(operation, from, 20, "zmm4", "zmm3", x, y, z, 20, 21, 22) \
  KPT_TILE_WEIGHTS(next, 64, q)                                          \
  KPT_TILE_ROW(operation, from, 24, "zmm3", "zmm4", x, y, z, 23, 24, 25) \
  KPT_TILE_ROW(operation, from, 32, "zmm4", "zmm3", x, y, z, 26, 27, 28) \
  KPT_TILE_WEIGHTS(next, 128, r)                                         \
  KPT_TILE_ROW_SWAPPED(operation, from, 28, x, y, z, 29, 30, 31)
#define KPT_TILE_SIX(one, a, b, c, d, e, f, from) \
  one(a, from + 0) one(b, from + 64) one(c, from + 128) one(d, from + 192) one(e, from + 256) one(f, from + 320)
#define KPT_TILE_ALL(one)                        \
  KPT_TILE_SIX(one, 8, 9, 10, 11, 12, 13, 0)     \
  KPT_TILE_SIX(one, 14, 15, 16, 17, 18, 19, 384) \
  KPT_TILE_SIX(one, 20, 21, 22, 23, 24, 25, 768) KPT_TILE_SIX(one, 26, 27, 28, 29, 30, 31, 1152)
#define KPT_TILE_CLEAR(sum, offset) "vpxord %%zmm" #sum ", %%zmm" #sum ", %%zmm" #sum "\n"
#define KPT_TILE_STORE(sum, offset) "vmovups %%zmm" #sum ", " #offset "(%[sums])\n"
#define KPT_TILE_ADD_FLOATS(sum, offset) "vaddps " #offset "(%[sums]), %%zmm" #sum ", %%zmm" #sum "\n"
#define KPT_TILE_ADD_INTS(sum, offset) "vpaddd " #offset "(%[sums]), %%zmm" #sum ", %%zmm" #sum "\n"
// A line of what comes later, asked for with two units.
#define KPT_TILE_AHEAD "prefetcht1 (%[next])\nadd $64, %[next]\n"
#define KPT_TILE_NOTHING_AHEAD ""
// unit: KPT_TILE_UNIT or KPT_TILE_UNIT_SWAPPED; add: KPT_TILE_ADD_FLOATS or KPT_TILE_ADD_INTS; ahead: KPT_TILE_AHEAD or
// KPT_TILE_NOTHING_AHEAD.
#define KPT_AVX512_TILE(unit, operation, add, ahead, units, input, weights, sums, next, accumulate) \
  __asm__ volatile(KPT_TILE_ALL(KPT_TILE_CLEAR) "test %[units], %[units]\nje 3f\n" KPT_TILE_WEIGHTS(0, 0, 0)         \
                       KPT_TILE_WEIGHTS(0, 64, 1) KPT_TILE_WEIGHTS(0, 128, 2)                                          \
                           "vbroadcastss (%[input]), %%zmm3\nsub $2, %[units]\njl 2f\n.p2align 5\n1:\n" ahead unit( \
                               operation, 0, 192, 0, 1, 2, 5, 6, 7) unit(operation, 32, 384, 5, 6, 7, 0, 1, 2)         \
                               "add $64, %[input]\nadd $384, %[weights]\nsub $2, %[units]\njge 1b\n2:\n"          \
                               "cmp $-1, %[units]\njne 3f\n" unit(operation, 0, 192, 0, 1, 2, 5, 6, 7)               \
                                   "3:\ntest %[accumulate], %[accumulate]\nje 4f\n" KPT_TILE_ALL(add)               \
                                       "4:\n" KPT_TILE_ALL(KPT_TILE_STORE)                                            \
                   : [units] "+r"(units), [input] "+r"(input), [weights] "+r"(weights), [next] "+r"(next)              \
                   : [sums] "r"(sums), [accumulate] "r"(static_cast<int>(accumulate))                                  \
                   : "memory", "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9",   \
                     "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "xmm16", "xmm17", "xmm18", "xmm19",         \
                     "xmm20", "xmm21", "xmm22", "xmm23", "xmm24", "xmm25", "xmm26", "xmm27", "xmm28", "xmm29",         \
                     "xmm30", "xmm31")

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/unroll.h"

namespace kpt::kernels {

template <typename Isa>
struct Avx512Tile {
  using Sum = typename Isa::Sum;
  using Scalar = typename Isa::Scalar;
  static constexpr std::ptrdiff_t kInputStep = std::ptrdiff_t{8} * 4;
  static constexpr std::ptrdiff_t kWeightStep = std::ptrdiff_t{48} * 4;

  template <std::size_t kCount, std::size_t kParts>
  static inline void add_unit(Sum (&sums)[kCount][kParts], const char* input, const char* weights) {
    using Vector = decltype(Isa::load_weights(weights));
    Vector columns[kParts];
    KPT_UNROLL for (std::size_t part = 0; part < kParts; ++part) columns[part] = Isa::load_weights(weights + part * 64);
    KPT_UNROLL for (std::size_t row = 0; row < kCount; ++row) {
      const Vector factor = Isa::spread(input + row * 4);
      KPT_UNROLL for (std::size_t part = 0; part < kParts; ++part) {
        sums[row][part] = Isa::add_product(sums[row][part], factor, columns[part]);
      }
    }
  }

  // So many rows and vectors, with two sets of sums, so that the chains of dependent additions fill the pipes. Stores
  // the first `rows`.
  template <std::size_t kCount, std::size_t kParts>
  static void multiply_part(std::int64_t units, const char* input, const char* weights, Scalar* tile, int rows,
                            bool accumulate) {
    Sum sums[2][kCount][kParts];
    KPT_UNROLL for (std::size_t set = 0; set < 2; ++set) {
      KPT_UNROLL for (std::size_t row = 0; row < kCount; ++row) {
        KPT_UNROLL for (std::size_t part = 0; part < kParts; ++part) sums[set][row][part] = Isa::zero();
      }
    }
    std::int64_t unit = 0;
    for (; unit + 2 <= units; unit += 2, input += 2 * kInputStep, weights += 2 * kWeightStep) {
      add_unit<kCount, kParts>(sums[0], input, weights);
      add_unit<kCount, kParts>(sums[1], input + kInputStep, weights + kWeightStep);
    }
    if (unit < units) add_unit<kCount, kParts>(sums[0], input, weights);
    KPT_UNROLL for (std::size_t row = 0; row < kCount; ++row) {
      if (row >= static_cast<std::size_t>(rows)) return;
      KPT_UNROLL for (std::size_t part = 0; part < kParts; ++part) {
        store(tile + row * 48 + part * 16, Isa::add(sums[0][row][part], sums[1][row][part]), accumulate);
      }
    }
  }

  // Computes all rows of the tile, whatever the last ones hold, and stores `rows` of them.
  static void multiply_tile(std::int64_t units, const char* input, const char* weights, Scalar* tile, int rows,
                            bool accumulate) {
    if (rows == 8) return Isa::add_all(units, input, weights, tile, accumulate);
    Sum sums[8 * 3];
    Isa::add_all(units, input, weights, sums, false);
    for (int part = 0; part < 3 * rows; ++part) store(tile + part * 16, sums[part], accumulate);
  }

  static void store(Scalar* target, Sum sum, bool accumulate) {
    Isa::store(target, accumulate ? Isa::add(Isa::load(target), sum) : sum);
  }

  static constexpr int kAheadBytes = 32;
  static void multiply_ahead(std::int64_t units, const void* input, const void* weights, void* tile, const void* next,
                             bool accumulate) {
    Isa::add_all_ahead(units, static_cast<const char*>(input), static_cast<const char*>(weights), tile, next,
                       accumulate);
  }

  static void multiply(std::int64_t units, const void* input, const void* weights, void* tile, int rows,
                       bool accumulate) {
    const auto* a = static_cast<const char*>(input);
    const auto* w = static_cast<const char*>(weights);
    auto* out = static_cast<Scalar*>(tile);
    switch (rows) {
      case 1: return multiply_part<1, 3>(units, a, w, out, rows, accumulate);
      case 2: return multiply_part<2, 3>(units, a, w, out, rows, accumulate);
      case 3: return multiply_part<3, 3>(units, a, w, out, rows, accumulate);
      case 4: return multiply_part<4, 3>(units, a, w, out, rows, accumulate);
      default: return multiply_tile(units, a, w, out, rows, accumulate);
    }
  }

  // For up to 32 columns.
  static void multiply_narrow(std::int64_t units, const void* input, const void* weights, void* tile, int rows,
                              int columns, bool accumulate) {
    const auto* a = static_cast<const char*>(input);
    const auto* w = static_cast<const char*>(weights);
    auto* out = static_cast<Scalar*>(tile);
    if (columns <= 16) return multiply_part<8, 1>(units, a, w, out, rows, accumulate);
    multiply_part<4, 2>(units, a, w, out, rows, accumulate);
    if (rows > 4) multiply_part<4, 2>(units, a + 16, w, out + 4 * 48, rows - 4, accumulate);
  }
};

}  // namespace kpt::kernels
