// Sums of products of int8 by VPDPBUSD. `Isa` is the kernel that uses them, a type of its own source: so functions of
// sources that are compiled for different instruction sets never stand for each other.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

namespace kpt::kernels {

// VPDPBUSD wants one operand without a sign: inputs are stored with kShift added, and what that adds to each column is
// taken off at the end.
template <typename Isa>
struct Avx512Int8Products {
  Avx512Int8Products() = delete;

  static constexpr int kWidth = 16;
  static constexpr int kShift = 128;
  using Sum = __m512i;
  using Scalar = std::int32_t;

  static Sum zero() { return _mm512_setzero_si512(); }
  static Sum add(Sum a, Sum b) { return _mm512_add_epi32(a, b); }
  static Sum load(const std::int32_t* address) { return _mm512_loadu_si512(address); }
  static void store(std::int32_t* address, Sum value) { _mm512_storeu_si512(address, value); }
  static Sum load_weights(const char* address) { return _mm512_loadu_si512(address); }
  static Sum spread(const char* input) {
    std::int32_t four = 0;
    std::memcpy(&four, input, sizeof(four));
    return _mm512_set1_epi32(four);
  }
  static Sum add_product(Sum sum, Sum input, Sum weights) { return _mm512_dpbusd_epi32(sum, input, weights); }
};

}  // namespace kpt::kernels
