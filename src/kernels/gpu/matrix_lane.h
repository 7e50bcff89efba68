// The matrix instructions of AMD's CDNA and RDNA, on the GPU and emulated on the host.
//
// All lanes of a wave execute one together: sums += rows · columnsᵀ, 16 x 16 results. Lane L holds elements of row
// L % 16 of both operands, 32-bit words full of them, and kSums results of column L % 16. A unit says how many:
//
//   unit    wave  instructions             words  which depths                     rows of the results
//   Cdna2     64  16x16x16 of 16 and 8 bit  2, 1  a quarter in each 16 lanes       4 · (L / 16) + r
//   Cdna3     64  16x16x16, 8 bit 16x16x32     2  a quarter in each 16 lanes       4 · (L / 16) + r
//   Cdna4     64  16x16x32, int8 16x16x64      4  a quarter in each 16 lanes       4 · (L / 16) + r
//   Rdna3     32  16x16x16                  8, 4  all of them, in both halves      2 · r + L / 16
//   Rdna4     32  16x16x16                  4, 2  one half in each 16 lanes        8 · (L / 16) + r
//
// Both operands' depths lie alike in the lanes, so a caller may put any depth anywhere as long as it does so in both.
#pragma once

#include "kernels/gpu/numbers.h"

namespace kpt::gpu {

// kShare: groups of 16 lanes among which the depth is divided.
struct CdnaLayout {
  static constexpr int kWave = 64, kShare = 4, kSums = 4;
  static constexpr bool kConsecutive = true;  // rows of a lane's results follow each other
  KPT_DEVICE static Int32 row_of(Int32 lane, Int32 sum) { return lane / 16 * 4 + sum; }
};
struct Rdna3Layout {
  static constexpr int kWave = 32, kShare = 1, kSums = 8;
  static constexpr bool kConsecutive = false;
  KPT_DEVICE static Int32 row_of(Int32 lane, Int32 sum) { return 2 * sum + lane / 16; }
};
struct Rdna4Layout {
  static constexpr int kWave = 32, kShare = 2, kSums = 8;
  static constexpr bool kConsecutive = true;
  KPT_DEVICE static Int32 row_of(Int32 lane, Int32 sum) { return lane / 16 * 8 + sum; }
};

// kWords<T>: of one lane for each operand of the instruction for T.
struct Cdna2 : CdnaLayout {
  template <typename T>
  static constexpr int kWords = sizeof(T) == 2 ? 2 : 1;
};
struct Cdna3 : CdnaLayout {
  template <typename T>
  static constexpr int kWords = 2;
};
struct Cdna4 : CdnaLayout {
  template <typename T>
  static constexpr int kWords = 4;
};
template <>
inline constexpr int Cdna4::kWords<E4M3> = 2;  // the instruction that is its own takes no less than 128 steps
struct Rdna3 : Rdna3Layout {
  template <typename T>
  static constexpr int kWords = sizeof(T) == 2 ? 8 : 4;
};
struct Rdna4 : Rdna4Layout {
  template <typename T>
  static constexpr int kWords = sizeof(T) == 2 ? 4 : 2;
};

// What products of T are summed in.
template <typename T>
struct MatrixSum {
  using Type = float;
};
template <>
struct MatrixSum<Int8> {
  using Type = Int32;
};

#if defined(KPT_SIMT_HIP)

template <typename T, int N>
using VectorOf = T __attribute__((ext_vector_type(N)));

// An instruction's operand of a type and a number of words.
template <typename To, int N>
KPT_DEVICE To operand_of(const UInt32 (&words)[N]) {
  VectorOf<UInt32, N> vector;
  KPT_UNROLL
  for (int i = 0; i < N; ++i) vector[i] = words[i];
  return __builtin_bit_cast(To, vector);
}

template <typename Unit, typename T>
struct Instruction;

#define KPT_INSTRUCTION(Unit, T, Operand, Sums, call)                         \
  template <>                                                                 \
  struct Instruction<Unit, T> {                                               \
    using Taken = Operand;                                                    \
    using Given = Sums;                                                       \
    KPT_DEVICE static Sums run(Operand a, Operand b, Sums c) { return call; } \
  };
using Floats4 = VectorOf<float, 4>;
using Floats8 = VectorOf<float, 8>;
using Ints4 = VectorOf<Int32, 4>;
using Ints8 = VectorOf<Int32, 8>;
using Words2 = VectorOf<Int32, 2>;
using Half4 = VectorOf<_Float16, 4>;
using Half8 = VectorOf<_Float16, 8>;
using Half16 = VectorOf<_Float16, 16>;
using Short4 = VectorOf<short, 4>;
using Short8 = VectorOf<short, 8>;
using Short16 = VectorOf<short, 16>;

#if defined(__gfx90a__)
KPT_INSTRUCTION(Cdna2, Int8, Int32, Ints4, __builtin_amdgcn_mfma_i32_16x16x16i8(a, b, c, 0, 0, 0))
KPT_INSTRUCTION(Cdna2, Half, Half4, Floats4, __builtin_amdgcn_mfma_f32_16x16x16f16(a, b, c, 0, 0, 0))
KPT_INSTRUCTION(Cdna2, BFloat, Short4, Floats4, __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(a, b, c, 0, 0, 0))
#endif
#if defined(__gfx942__)
KPT_INSTRUCTION(Cdna3, Half, Half4, Floats4, __builtin_amdgcn_mfma_f32_16x16x16f16(a, b, c, 0, 0, 0))
KPT_INSTRUCTION(Cdna3, BFloat, Short4, Floats4, __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(a, b, c, 0, 0, 0))
KPT_INSTRUCTION(Cdna3, Int8, long, Ints4, __builtin_amdgcn_mfma_i32_16x16x32_i8(a, b, c, 0, 0, 0))
KPT_INSTRUCTION(Cdna3, E4M3Fnuz, long, Floats4, __builtin_amdgcn_mfma_f32_16x16x32_fp8_fp8(a, b, c, 0, 0, 0))
#endif
#if defined(__gfx950__)
using BFloat8 = VectorOf<__bf16, 8>;
KPT_INSTRUCTION(Cdna4, Half, Half8, Floats4, __builtin_amdgcn_mfma_f32_16x16x32_f16(a, b, c, 0, 0, 0))
KPT_INSTRUCTION(Cdna4, BFloat, BFloat8, Floats4, __builtin_amdgcn_mfma_f32_16x16x32_bf16(a, b, c, 0, 0, 0))
KPT_INSTRUCTION(Cdna4, Int8, Ints4, Ints4, __builtin_amdgcn_mfma_i32_16x16x64_i8(a, b, c, 0, 0, 0))
KPT_INSTRUCTION(Cdna4, E4M3, long, Floats4, __builtin_amdgcn_mfma_f32_16x16x32_fp8_fp8(a, b, c, 0, 0, 0))
#endif
#if defined(__GFX11__)
KPT_INSTRUCTION(Rdna3, Half, Half16, Floats8, __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(a, b, c))
KPT_INSTRUCTION(Rdna3, BFloat, Short16, Floats8, __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(a, b, c))
KPT_INSTRUCTION(Rdna3, Int8, Ints4, Ints8, __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32(true, a, true, b, c, false))
#endif
#if defined(__GFX12__)
KPT_INSTRUCTION(Rdna4, Half, Half8, Floats8, __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(a, b, c))
KPT_INSTRUCTION(Rdna4, BFloat, Short8, Floats8, __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(a, b, c))
KPT_INSTRUCTION(Rdna4, Int8, Words2, Ints8,
                __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32_gfx12(true, a, true, b, c, false))
KPT_INSTRUCTION(Rdna4, E4M3, Words2, Floats8, __builtin_amdgcn_wmma_f32_16x16x16_fp8_fp8_w32_gfx12(a, b, c))
#endif
#undef KPT_INSTRUCTION

template <typename Unit, typename T, typename L, int N, typename Sum>
KPT_DEVICE void multiply_16x16(L& /*lane*/, const UInt32 (&rows)[N], const UInt32 (&columns)[N],
                               Sum (&sums)[Unit::kSums]) {
  using Chosen = Instruction<Unit, T>;
  typename Chosen::Given vector;
  KPT_UNROLL
  for (int i = 0; i < Unit::kSums; ++i) vector[i] = sums[i];
  vector = Chosen::run(operand_of<typename Chosen::Taken>(rows), operand_of<typename Chosen::Taken>(columns), vector);
  KPT_UNROLL
  for (int i = 0; i < Unit::kSums; ++i) sums[i] = vector[i];
}

#elif defined(KPT_SIMT_HOST)

template <typename T>
float element_of(const UInt32* words, int index) {
  T element;
  __builtin_memcpy(&element, reinterpret_cast<const unsigned char*>(words) + sizeof(T) * static_cast<unsigned>(index),
                   sizeof(T));
  return to_float(element);
}

template <typename Unit, typename T, typename L, int N, typename Sum>
void multiply_16x16(L& lane, const UInt32 (&rows)[N], const UInt32 (&columns)[N], Sum (&sums)[Unit::kSums]) {
  static_assert(L::kWave == Unit::kWave, "the instruction is of other waves");
  static_assert(N == Unit::template kWords<T>);
  constexpr int kElements = N * 4 / static_cast<int>(sizeof(T));
  float own[2 * kElements];
  for (int i = 0; i < kElements; ++i) {
    own[i] = element_of<T>(rows, i);
    own[kElements + i] = element_of<T>(columns, i);
  }
  lane.host().publish(own, 2 * kElements);
  const Int32 first = lane.thread() - lane.lane();
  const auto read = [&](Int32 holder, Int32 index) {
    const float value = lane.host().published(first + holder, index);
    if constexpr (Unit::kShare == 1) {
      // Both halves of the wave must hold the same; what comes of it otherwise is not said.
      if (bits_of(lane.host().published(first + holder + 16, index)) != bits_of(value)) return nan_float();
    }
    return value;
  };
  for (Int32 sum = 0; sum < Unit::kSums; ++sum) {
    for (Int32 group = 0; group < Unit::kShare; ++group) {
      for (Int32 i = 0; i < kElements; ++i) {
        sums[sum] += static_cast<Sum>(read(16 * group + Unit::row_of(lane.lane(), sum), i) *
                                      read(16 * group + lane.lane() % 16, kElements + i));
      }
    }
  }
}

#endif

}  // namespace kpt::gpu
