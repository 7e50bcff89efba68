// The tile of AVX-512: 8 rows, three vectors of 16 columns. See vector_math.h for `Isa`, which has the vector type Sum,
// the element type Scalar and, for units of four bytes per row and column,
//   static Sum zero();  static Sum add(Sum, Sum);  static Sum load(const Scalar*);  static void store(Scalar*, Sum);
//   static Sum add_product(Sum sum, const char* input, const char* weights): one input unit with 16 of the weights.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace kpt::kernels {

template <typename Isa>
struct Avx512Tile {
  using Sum = typename Isa::Sum;
  using Scalar = typename Isa::Scalar;
  static constexpr std::ptrdiff_t kInputStep = std::ptrdiff_t{8} * 4;
  static constexpr std::ptrdiff_t kWeightStep = std::ptrdiff_t{48} * 4;

  template <std::size_t kCount>
  static inline void add_unit(Sum (&sums)[kCount][3], const char* input, const char* weights) {
    for (std::size_t row = 0; row < kCount; ++row) {
      for (std::size_t part = 0; part < 3; ++part) {
        sums[row][part] = Isa::add_product(sums[row][part], input + row * 4, weights + part * 64);
      }
    }
  }

  // Few rows get two sets of sums, so that the chains of dependent additions fill the pipes.
  template <std::size_t kCount>
  static void multiply_rows(std::int64_t units, const char* input, const char* weights, Scalar* tile, bool accumulate) {
    constexpr std::size_t kSets = kCount <= 4 ? 2 : 1;
    Sum sums[kSets][kCount][3];
    for (auto& set : sums) {
      for (auto& row : set) {
        for (Sum& sum : row) sum = Isa::zero();
      }
    }
    std::int64_t unit = 0;
    for (; unit + 2 <= units; unit += 2, input += 2 * kInputStep, weights += 2 * kWeightStep) {
      add_unit<kCount>(sums[0], input, weights);
      add_unit<kCount>(sums[1 % kSets], input + kInputStep, weights + kWeightStep);
    }
    if (unit < units) add_unit<kCount>(sums[0], input, weights);
    for (std::size_t row = 0; row < kCount; ++row) {
      for (std::size_t part = 0; part < 3; ++part) {
        Sum sum = sums[0][row][part];
        if constexpr (kSets == 2) sum = Isa::add(sum, sums[1][row][part]);
        Scalar* target = tile + row * 48 + part * 16;
        Isa::store(target, accumulate ? Isa::add(Isa::load(target), sum) : sum);
      }
    }
  }

  static void multiply(std::int64_t units, const void* input, const void* weights, void* tile, int rows,
                       bool accumulate) {
    const auto* a = static_cast<const char*>(input);
    const auto* w = static_cast<const char*>(weights);
    auto* out = static_cast<Scalar*>(tile);
    switch (rows) {
      case 1: return multiply_rows<1>(units, a, w, out, accumulate);
      case 2: return multiply_rows<2>(units, a, w, out, accumulate);
      case 3: return multiply_rows<3>(units, a, w, out, accumulate);
      case 4: return multiply_rows<4>(units, a, w, out, accumulate);
      case 5: return multiply_rows<5>(units, a, w, out, accumulate);
      case 6: return multiply_rows<6>(units, a, w, out, accumulate);
      case 7: return multiply_rows<7>(units, a, w, out, accumulate);
      default: return multiply_rows<8>(units, a, w, out, accumulate);
    }
  }
};

}  // namespace kpt::kernels
