// The matrix instruction of AMD's CDNA, on the GPU and emulated on the host.
//
// All 64 lanes of a wave execute it together: sums += rows · columnsᵀ, 16 x 16 results of 16 products each. Lane L
// holds four elements of row L % 16 of both operands, from depth 4 · (L / 16) on, and the results of column L % 16 in
// rows 4 · (L / 16) to 4 · (L / 16) + 3.
#pragma once

#include "kernels/gpu/numbers.h"

namespace kpt::gpu {

#if defined(KPT_SIMT_HIP)

using Half4 = _Float16 __attribute__((ext_vector_type(4)));
using Short4 = short __attribute__((ext_vector_type(4)));
using Float4 = float __attribute__((ext_vector_type(4)));

KPT_DEVICE Float4 multiply_instruction(const Half (&rows)[4], const Half (&columns)[4], Float4 sums) {
  Half4 a, b;
  KPT_UNROLL
  for (int i = 0; i < 4; ++i) {
    a[i] = __builtin_bit_cast(_Float16, rows[i].bits);
    b[i] = __builtin_bit_cast(_Float16, columns[i].bits);
  }
  return __builtin_amdgcn_mfma_f32_16x16x16f16(a, b, sums, 0, 0, 0);
}

KPT_DEVICE Float4 multiply_instruction(const BFloat (&rows)[4], const BFloat (&columns)[4], Float4 sums) {
  Short4 a, b;
  KPT_UNROLL
  for (int i = 0; i < 4; ++i) {
    a[i] = static_cast<short>(rows[i].bits);
    b[i] = static_cast<short>(columns[i].bits);
  }
  return __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(a, b, sums, 0, 0, 0);
}

template <typename T, typename L>
KPT_DEVICE void multiply_16x16x16(L& /*lane*/, const T (&rows)[4], const T (&columns)[4], float (&sums)[4]) {
  Float4 vector{sums[0], sums[1], sums[2], sums[3]};
  vector = multiply_instruction(rows, columns, vector);
  KPT_UNROLL
  for (int i = 0; i < 4; ++i) sums[i] = vector[i];
}

#elif defined(KPT_SIMT_HOST)

template <typename T, typename L>
KPT_DEVICE void multiply_16x16x16(L& lane, const T (&rows)[4], const T (&columns)[4], float (&sums)[4]) {
  static_assert(L::kWave == 64, "the instruction is of wavefronts of 64");
  float own[8];
  for (int i = 0; i < 4; ++i) {
    own[i] = to_float(rows[i]);
    own[4 + i] = to_float(columns[i]);
  }
  lane.host().publish(own);
  const Int32 first = lane.thread() - lane.lane();
  for (Int32 r = 0; r < 4; ++r) {
    const Int32 row = lane.lane() / 16 * 4 + r;
    const Int32 column = lane.lane() % 16;
    for (Int32 depth = 0; depth < 16; ++depth) {
      const Int32 holder = first + depth / 4 * 16;
      sums[r] += lane.host().published(holder + row, depth % 4) * lane.host().published(holder + column, 4 + depth % 4);
    }
  }
}

#endif

}  // namespace kpt::gpu
