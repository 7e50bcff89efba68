// Sums of products of bfloat16 by VDPBF16PS. `Isa` is the kernel that uses them, a type of its own source: so functions
// of sources that are compiled for different instruction sets never stand for each other.
#pragma once

#include <immintrin.h>

#include <bit>
#include <cstdint>
#include <cstring>

namespace kpt::kernels {

template <typename Isa>
struct Avx512Bfloat16Products {
  Avx512Bfloat16Products() = delete;

  static constexpr int kWidth = 16;
  using Sum = __m512;
  using Scalar = float;

  static Sum zero() { return _mm512_setzero_ps(); }
  static Sum add(Sum a, Sum b) { return _mm512_add_ps(a, b); }
  static Sum load(const float* address) { return _mm512_loadu_ps(address); }
  static void store(float* address, Sum value) { _mm512_storeu_ps(address, value); }
  static __m512bh load_weights(const char* address) { return std::bit_cast<__m512bh>(_mm512_loadu_si512(address)); }
  static __m512bh spread(const char* input) {
    std::int32_t pair = 0;
    std::memcpy(&pair, input, sizeof(pair));
    return std::bit_cast<__m512bh>(_mm512_set1_epi32(pair));
  }
  static Sum add_product(Sum sum, __m512bh input, __m512bh weights) { return _mm512_dpbf16_ps(sum, input, weights); }
};

}  // namespace kpt::kernels
