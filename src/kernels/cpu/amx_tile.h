// The tile of AMX: 32 rows, 32 columns, as 2 x 2 accumulators of 16 x 16 sums. A unit of K is one tile register of A
// for 16 rows, [row][64 bytes], and one of W for 16 columns, [16][column][4 bytes]: pairs of bfloat16, fours of int8.
// See matrix_kernel.h for the contract. Up to Isa::kVectorRows rows are multiplied by AVX-512 instead.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/unroll.h"

namespace kpt::kernels {

// Sums in tmm0 to tmm3 (rows 0 and 16, columns 0 and 16 of each), A in tmm4 and tmm5, W in tmm6 and tmm7. In assembly,
// because g++ 12 gives its intrinsics no operand for the memory that they read. No compiler keeps anything in these
// registers by itself, so they are not listed as overwritten.
#define KPT_AMX_INPUT(offset, x) "tileloadd " #offset "(%[input],%[line],1), %%tmm" #x "\n"
#define KPT_AMX_WEIGHTS(offset, x) "tileloadd " #offset "(%[weights],%[line],2), %%tmm" #x "\n"
#define KPT_AMX_ADD(operation, weights, input, sum) operation " %%tmm" #weights ", %%tmm" #input ", %%tmm" #sum "\n"
#define KPT_AMX_CLEAR(offset, sum) "tilezero %%tmm" #sum "\n"
#define KPT_AMX_LOAD(offset, sum) "tileloadd " #offset "(%[tile],%[line],2), %%tmm" #sum "\n"
#define KPT_AMX_STORE(offset, sum) "tilestored %%tmm" #sum ", " #offset "(%[tile],%[line],2)\n"

// Which sums there are, and what one unit adds to them: up to 16 or up to 32 rows and columns.
#define KPT_AMX_SUMS_32X32(one) one(0, 0) one(64, 1) one(2048, 2) one(2112, 3)
#define KPT_AMX_UNIT_32X32(operation) \
  KPT_AMX_WEIGHTS(0, 6)               \
  KPT_AMX_INPUT(0, 4)                 \
  KPT_AMX_WEIGHTS(64, 7)              \
  KPT_AMX_ADD(operation, 6, 4, 0)     \
  KPT_AMX_ADD(operation, 7, 4, 1) KPT_AMX_INPUT(1024, 5) KPT_AMX_ADD(operation, 6, 5, 2) KPT_AMX_ADD(operation, 7, 5, 3)
// The same, and eight lines of what comes later, spread out: asked for at once they would hold up the loads.
#define KPT_AMX_AHEAD(offset) "prefetcht1 " #offset "(%[next])\n"
#define KPT_AMX_UNIT_32X32_AHEAD(operation) \
  KPT_AMX_WEIGHTS(0, 6)                     \
  KPT_AMX_AHEAD(0)                          \
  KPT_AMX_AHEAD(64)                         \
  KPT_AMX_INPUT(0, 4)                       \
  KPT_AMX_AHEAD(128)                        \
  KPT_AMX_AHEAD(192)                        \
  KPT_AMX_WEIGHTS(64, 7)                    \
  KPT_AMX_ADD(operation, 6, 4, 0)           \
  KPT_AMX_AHEAD(256)                        \
  KPT_AMX_AHEAD(320)                        \
  KPT_AMX_ADD(operation, 7, 4, 1)           \
  KPT_AMX_INPUT(1024, 5)                    \
  KPT_AMX_AHEAD(384)                        \
  KPT_AMX_AHEAD(448) KPT_AMX_ADD(operation, 6, 5, 2) KPT_AMX_ADD(operation, 7, 5, 3) "add $512, %[next]\n"
#define KPT_AMX_SUMS_32X32_AHEAD(one) KPT_AMX_SUMS_32X32(one)
#define KPT_AMX_SUMS_16X32(one) one(0, 0) one(64, 1)
#define KPT_AMX_UNIT_16X32(operation) \
  KPT_AMX_WEIGHTS(0, 6)               \
  KPT_AMX_INPUT(0, 4) KPT_AMX_WEIGHTS(64, 7) KPT_AMX_ADD(operation, 6, 4, 0) KPT_AMX_ADD(operation, 7, 4, 1)
#define KPT_AMX_SUMS_32X16(one) one(0, 0) one(2048, 2)
#define KPT_AMX_UNIT_32X16(operation) \
  KPT_AMX_WEIGHTS(0, 6)               \
  KPT_AMX_INPUT(0, 4) KPT_AMX_INPUT(1024, 5) KPT_AMX_ADD(operation, 6, 4, 0) KPT_AMX_ADD(operation, 6, 5, 2)
#define KPT_AMX_SUMS_16X16(one) one(0, 0)
#define KPT_AMX_UNIT_16X16(operation) KPT_AMX_WEIGHTS(0, 6) KPT_AMX_INPUT(0, 4) KPT_AMX_ADD(operation, 6, 4, 0)

// `units`, `input`, `weights`, `tile`, `next` and `accumulate` are the parameters of multiply_ahead().
#define KPT_AMX_MULTIPLY(size, operation) \
  __asm__ volatile("test %[accumulate], %[accumulate]\njne 1f\n" KPT_AMX_SUMS_##size(KPT_AMX_CLEAR) "jmp 2f\n1:\n"     \
                       KPT_AMX_SUMS_##size(KPT_AMX_LOAD) "2:\ntest %[units], %[units]\nje 4f\n.p2align 5\n3:\n"        \
                           KPT_AMX_UNIT_##size(operation) "add $2048, %[input]\nadd $2048, %[weights]\n"               \
                                                          "dec %[units]\njne 3b\n4:\n"                                 \
                               KPT_AMX_SUMS_##size(KPT_AMX_STORE)                                                      \
                   : [units] "+r"(units), [input] "+r"(input), [weights] "+r"(weights), [next] "+r"(next)              \
                   : [tile] "r"(tile), [line] "r"(std::int64_t{64}), [accumulate] "r"(static_cast<int>(accumulate))    \
                   : "memory", "cc")

// The functions that AmxTile wants of its `Isa`.
#define KPT_AMX_FUNCTION(name, size, operation)                                                              \
  static void name(std::int64_t units, const void* input, const void* weights, void* tile, const void* next, \
                   bool accumulate) {                                                                        \
    KPT_AMX_MULTIPLY(size, operation);                                                                       \
  }
#define KPT_AMX_FUNCTIONS(operation)                       \
  KPT_AMX_FUNCTION(multiply_ahead, 32X32_AHEAD, operation) \
  KPT_AMX_FUNCTION(multiply_32x32, 32X32, operation)       \
  KPT_AMX_FUNCTION(multiply_16x32, 16X32, operation)       \
  KPT_AMX_FUNCTION(multiply_32x16, 32X16, operation)       \
  KPT_AMX_FUNCTION(multiply_16x16, 16X16, operation)

// What LDTILECFG reads.
struct AmxConfiguration {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};
};

// See vector_math.h for `Isa`, which has KPT_AMX_FUNCTIONS, kVectorRows, the vector type Sum, the element type Scalar
// and
//   static Sum zero();  static Sum add(Sum, Sum);  static Sum load(const Scalar*);  static void store(Scalar*, Sum);
//   static Vector load_weights(const char* address): of 16 columns;  static Vector spread(const char* input): 4 bytes;
//   static Sum add_product(Sum sum, Vector input, Vector weights).
template <typename Isa>
struct AmxTile {
  using Sum = typename Isa::Sum;
  using Scalar = typename Isa::Scalar;
  static constexpr int kRows = 32;
  static constexpr int kColumns = 32;
  static constexpr std::ptrdiff_t kRowBytes = 64;  // of one unit
  static constexpr std::ptrdiff_t kUnitBytes = kRows * kRowBytes;

  // Takes 80 ns, a third of what a tile of K = 384 takes: once for all tiles of a task. Other libraries that use tiles
  // do so on the same threads, so nothing is left from one task to the next.
  static void enter(std::int64_t rows) {
    if (rows <= Isa::kVectorRows) return;
    alignas(64) AmxConfiguration configuration;
    const auto first = static_cast<std::uint8_t>(rows < 16 ? rows : 16);
    const auto second = static_cast<std::uint8_t>(rows <= 16 ? 1 : rows < 32 ? rows - 16 : 16);
    const std::uint8_t counts[8] = {first, first, second, second, first, second, 16, 16};
    for (std::size_t i = 0; i < 8; ++i) {
      configuration.row_bytes[i] = 64;
      configuration.rows[i] = counts[i];
    }
    __asm__ volatile("ldtilecfg %0" : : "m"(configuration));
  }
  static void leave() { __asm__ volatile("tilerelease"); }

  // Of a panel that is not full, whatever lies in its other rows is multiplied too: the tile has room for it.
  static void multiply(std::int64_t units, const void* input, const void* weights, void* tile, int rows,
                       bool accumulate) {
    if (rows <= Isa::kVectorRows) return multiply_few(units, input, weights, tile, rows, accumulate);
    if (rows > 16) return Isa::multiply_32x32(units, input, weights, tile, nullptr, accumulate);
    Isa::multiply_16x32(units, input, weights, tile, nullptr, accumulate);
  }

  // For up to 16 columns.
  static void multiply_narrow(std::int64_t units, const void* input, const void* weights, void* tile, int rows,
                              int /*columns*/, bool accumulate) {
    if (rows <= Isa::kVectorRows) return multiply_few(units, input, weights, tile, rows, accumulate);
    if (rows > 16) return Isa::multiply_32x16(units, input, weights, tile, nullptr, accumulate);
    Isa::multiply_16x16(units, input, weights, tile, nullptr, accumulate);
  }

 private:
  static void multiply_few(std::int64_t units, const void* input, const void* weights, void* tile, int rows,
                           bool accumulate) {
    static_assert(Isa::kVectorRows == 1 || Isa::kVectorRows == 2);
    if constexpr (Isa::kVectorRows == 2) {
      if (rows == 2) return multiply_rows<2>(units, input, weights, tile, accumulate);
    }
    multiply_rows<1>(units, input, weights, tile, accumulate);
  }

  // Four sets of sums, so that the chains of dependent additions fill the pipes.
  template <std::size_t kCount>
  static void multiply_rows(std::int64_t units, const void* input, const void* weights, void* tile, bool accumulate) {
    constexpr std::size_t kSets = 4;
    Sum sums[kSets][kCount][2];
    KPT_UNROLL for (std::size_t i = 0; i < kSets * kCount * 2; ++i) {
      sums[i / (kCount * 2)][i / 2 % kCount][i % 2] = Isa::zero();
    }
    const auto* a = static_cast<const char*>(input);
    const auto* w = static_cast<const char*>(weights);
    for (; units > 0; --units, a += kUnitBytes, w += kUnitBytes) {
      KPT_UNROLL for (std::size_t step = 0; step < 16; ++step) {
        const auto low = Isa::load_weights(w + step * 128);
        const auto high = Isa::load_weights(w + step * 128 + 64);
        KPT_UNROLL for (std::size_t row = 0; row < kCount; ++row) {
          const auto factor = Isa::spread(a + row * kRowBytes + step * 4);
          Sum(&of_row)[2] = sums[step % kSets][row];
          of_row[0] = Isa::add_product(of_row[0], factor, low);
          of_row[1] = Isa::add_product(of_row[1], factor, high);
        }
      }
    }
    auto* target = static_cast<Scalar*>(tile);
    KPT_UNROLL for (std::size_t i = 0; i < kCount * 2; ++i, target += 16) {
      Sum sum = Isa::add(Isa::add(sums[0][i / 2][i % 2], sums[1][i / 2][i % 2]),
                         Isa::add(sums[2][i / 2][i % 2], sums[3][i / 2][i % 2]));
      Isa::store(target, accumulate ? Isa::add(Isa::load(target), sum) : sum);
    }
  }
};

}  // namespace kpt::kernels
