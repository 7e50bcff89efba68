#include <arm_neon.h>

#include <cstring>

#include "kernels/cpu/expand_weights.h"
#include "kernels/cpu/finish.h"
#include "kernels/cpu/kernel_list.h"
#include "kernels/cpu/neon_lane_tile.h"
#include "kernels/cpu/pack_input.h"

namespace kpt::kernels {
namespace {

constexpr std::ptrdiff_t kRows = 8;
constexpr std::ptrdiff_t kColumns = 12;

struct Neon {
  static constexpr int kWidth = 4;
  static constexpr int kColumns = kernels::kColumns;
};

// Codes of one k, 12 of the 16 bytes, to floats.
inline void put_codes(uint8x16_t codes, const float32x4_t (&scales)[3], float* weights) {
  const int8x16_t values = vreinterpretq_s8_u8(vsubq_u8(codes, vdupq_n_u8(8)));
  const int16x8_t low = vmovl_s8(vget_low_s8(values));
  const int16x4_t high = vget_low_s16(vmovl_s8(vget_high_s8(values)));
  vst1q_f32(weights, vmulq_f32(vcvtq_f32_s32(vmovl_s16(vget_low_s16(low))), scales[0]));
  vst1q_f32(weights + 4, vmulq_f32(vcvtq_f32_s32(vmovl_s16(vget_high_s16(low))), scales[1]));
  vst1q_f32(weights + 8, vmulq_f32(vcvtq_f32_s32(vmovl_s16(high)), scales[2]));
}

// Pairs of k share bytes: [K / 2][columns], the even one in the low four bits. Reads 16 bytes for 12 codes; packed
// weights have room behind them.
void expand_int4(const StoredPanel& stored, float* weights) {
  const auto* bytes = static_cast<const std::uint8_t*>(stored.weights);
  const std::int64_t end = stored.first + stored.depth;
  for (std::int64_t k = stored.first; k < end;) {
    const std::int64_t group = k / stored.group;
    const float* source = stored.scales + group * kColumns;
    const float32x4_t scales[3] = {vld1q_f32(source), vld1q_f32(source + 4), vld1q_f32(source + 8)};
    const std::int64_t stop = (group + 1) * stored.group < end ? (group + 1) * stored.group : end;
    while (k < stop) {
      const uint8x16_t both = vld1q_u8(bytes + k / 2 * kColumns);
      if (k % 2 == 0 && k + 2 <= stop) {
        put_codes(vandq_u8(both, vdupq_n_u8(15)), scales, weights);
        put_codes(vshrq_n_u8(both, 4), scales, weights + kColumns);
        k += 2;
        weights += 2 * kColumns;
      } else {
        put_codes(k % 2 == 0 ? vandq_u8(both, vdupq_n_u8(15)) : vshrq_n_u8(both, 4), scales, weights);
        ++k;
        weights += kColumns;
      }
    }
  }
}

template <int kLane>
inline void add_product(float32x4_t (&sum)[3], float32x4_t w0, float32x4_t w1, float32x4_t w2, float32x4_t input) {
  sum[0] = vfmaq_laneq_f32(sum[0], w0, input, kLane);
  sum[1] = vfmaq_laneq_f32(sum[1], w1, input, kLane);
  sum[2] = vfmaq_laneq_f32(sum[2], w2, input, kLane);
}

template <std::size_t kCount>
inline void add_column(float32x4_t (&sums)[kCount][3], const float* input, const float* weights) {
  const float32x4_t w0 = vld1q_f32(weights);
  const float32x4_t w1 = vld1q_f32(weights + 4);
  const float32x4_t w2 = vld1q_f32(weights + 8);
  const float32x4_t low = vld1q_f32(input);
  add_product<0>(sums[0], w0, w1, w2, low);
  if constexpr (kCount > 1) add_product<1>(sums[1], w0, w1, w2, low);
  if constexpr (kCount > 2) add_product<2>(sums[2], w0, w1, w2, low);
  if constexpr (kCount > 3) add_product<3>(sums[3], w0, w1, w2, low);
}

template <std::size_t kCount>
void store_tile(const float32x4_t (&sums)[kCount][3], float* tile, bool accumulate) {
  for (std::size_t row = 0; row < kCount; ++row) {
    for (std::size_t part = 0; part < 3; ++part) {
      float* target = tile + row * kColumns + part * 4;
      vst1q_f32(target, accumulate ? vaddq_f32(vld1q_f32(target), sums[row][part]) : sums[row][part]);
    }
  }
}

// Few rows leave the chains of dependent additions too short to fill the pipes: they get several sets of sums, each for
// its own k.
template <std::size_t kCount, std::size_t kSets>
void multiply_rows(std::int64_t units, const float* input, const float* weights, float* tile, bool accumulate) {
  float32x4_t sums[kSets][kCount][3] = {};
  std::int64_t k = 0;
  constexpr std::ptrdiff_t kStep = kSets == 4 ? 4 : 2;
  for (; k + kStep <= units; k += kStep, input += kStep * kRows, weights += kStep * kColumns) {
    __builtin_prefetch(weights + 16 * kColumns);
    add_column<kCount>(sums[0], input, weights);
    add_column<kCount>(sums[1 % kSets], input + kRows, weights + kColumns);
    if constexpr (kSets == 4) {
      __builtin_prefetch(weights + 18 * kColumns);
      add_column<kCount>(sums[2 % kSets], input + 2 * kRows, weights + 2 * kColumns);
      add_column<kCount>(sums[3 % kSets], input + 3 * kRows, weights + 3 * kColumns);
    }
  }
  for (; k < units; ++k, input += kRows, weights += kColumns) add_column<kCount>(sums[0], input, weights);
  for (std::size_t set = 1; set < kSets; ++set) {
    for (std::size_t row = 0; row < kCount; ++row) {
      for (std::size_t part = 0; part < 3; ++part)
        sums[0][row][part] = vaddq_f32(sums[0][row][part], sums[set][row][part]);
    }
  }
  store_tile<kCount>(sums[0], tile, accumulate);
}

void multiply_tile(std::int64_t units, const float* input, const float* weights, float* tile, bool accumulate) {
  if (!accumulate) std::memset(tile, 0, sizeof(float) * kRows * kColumns);
  if (units <= 0) return;
  KPT_NEON_LANE_TILE("fmla", "4s", "s", units, input, weights, tile);
}

void multiply(std::int64_t units, const void* input, const void* weights, void* tile, int rows, bool accumulate) {
  const auto* a = static_cast<const float*>(input);
  const auto* w = static_cast<const float*>(weights);
  auto* out = static_cast<float*>(tile);
  switch (rows) {
    case 1: return multiply_rows<1, 4>(units, a, w, out, accumulate);
    case 2: return multiply_rows<2, 4>(units, a, w, out, accumulate);
    case 3: return multiply_rows<3, 2>(units, a, w, out, accumulate);
    case 4: return multiply_rows<4, 2>(units, a, w, out, accumulate);
    default: return multiply_tile(units, a, w, out, accumulate);  // faster than five rows alone
  }
}

// The weights of one k as floats, without their scale; `odd`: whether k is.
struct Bfloat16Source {
  static void load(const StoredPanel& stored, std::int64_t k, bool /*odd*/, float32x4_t (&weights)[3]) {
    const std::uint16_t* source = static_cast<const std::uint16_t*>(stored.weights) + k * kColumns;
    for (std::ptrdiff_t i = 0; i < 3; ++i)
      weights[i] = vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(source + 4 * i), 16));
  }
  static std::int64_t group(const StoredPanel& stored) { return stored.first + stored.depth; }
  static float32x4_t scale(const StoredPanel& /*stored*/, std::int64_t /*group*/, std::ptrdiff_t /*part*/) {
    return vdupq_n_f32(1.0F);
  }
};
struct Int4Source {
  // A code c in the upper bits of a float's fraction, below the exponent of 1/2, is 0.5 + c / 32; less 0.75 it is
  // (c - 8) / 32 without any rounding. Cheaper than widening and converting, which few of the pipes can do.
  static void load(const StoredPanel& stored, std::int64_t k, bool odd, float32x4_t (&weights)[3]) {
    const uint8x16_t both = vld1q_u8(static_cast<const std::uint8_t*>(stored.weights) + k / 2 * kColumns);
    const uint8x16_t moved = odd ? vshrq_n_u8(both, 1) : vshlq_n_u8(both, 3);
    const uint8x16_t codes = vandq_u8(moved, vdupq_n_u8(0x78));
    const uint8x16_t exponent = vdupq_n_u8(0x3F);
    const uint16x8_t low = vreinterpretq_u16_u8(vzip1q_u8(codes, exponent));
    const uint16x8_t high = vreinterpretq_u16_u8(vzip2q_u8(codes, exponent));
    const uint16x8_t zero = vdupq_n_u16(0);
    const float32x4_t middle = vdupq_n_f32(0.75F);
    weights[0] = vsubq_f32(vreinterpretq_f32_u16(vzip1q_u16(zero, low)), middle);
    weights[1] = vsubq_f32(vreinterpretq_f32_u16(vzip2q_u16(zero, low)), middle);
    weights[2] = vsubq_f32(vreinterpretq_f32_u16(vzip1q_u16(zero, high)), middle);
  }
  static std::int64_t group(const StoredPanel& stored) { return stored.group; }
  static float32x4_t scale(const StoredPanel& stored, std::int64_t group, std::ptrdiff_t part) {
    return vmulq_n_f32(vld1q_f32(stored.scales + group * kColumns + part * 4), 32.0F);
  }
};

struct Int8Source {
  // A byte below the exponent of 2^23 is 2^23 + byte: cheaper than widening and converting, as above. Reads 16 bytes
  // for 12 codes; packed weights have room behind them.
  static void load(const StoredPanel& stored, std::int64_t k, bool /*odd*/, float32x4_t (&weights)[3]) {
    const uint8x16_t bytes = vld1q_u8(static_cast<const std::uint8_t*>(stored.weights) + k * kColumns);
    const uint8x16_t shifted = veorq_u8(bytes, vdupq_n_u8(0x80));  // code + 128
    const uint16x8_t low = vreinterpretq_u16_u8(vzip1q_u8(shifted, vdupq_n_u8(0)));
    const uint16x8_t high = vreinterpretq_u16_u8(vzip2q_u8(shifted, vdupq_n_u8(0)));
    const uint16x8_t exponent = vdupq_n_u16(0x4B00);
    const float32x4_t middle = vdupq_n_f32(0x1p23F + 128.0F);
    weights[0] = vsubq_f32(vreinterpretq_f32_u16(vzip1q_u16(low, exponent)), middle);
    weights[1] = vsubq_f32(vreinterpretq_f32_u16(vzip2q_u16(low, exponent)), middle);
    weights[2] = vsubq_f32(vreinterpretq_f32_u16(vzip1q_u16(high, exponent)), middle);
  }
  static std::int64_t group(const StoredPanel& stored) { return stored.group; }
  static float32x4_t scale(const StoredPanel& stored, std::int64_t group, std::ptrdiff_t part) {
    return vld1q_f32(stored.scales + group * kColumns + part * 4);
  }
};

void expand_int8(const StoredPanel& stored, float* weights) {
  if (stored.depth == 0) return;  // there are no scales either
  float32x4_t scales[3];
  for (std::ptrdiff_t i = 0; i < 3; ++i) scales[i] = Int8Source::scale(stored, 0, i);
  for (std::int64_t k = stored.first; k < stored.first + stored.depth; ++k, weights += kColumns) {
    float32x4_t codes[3];
    Int8Source::load(stored, k, false, codes);
    for (std::ptrdiff_t i = 0; i < 3; ++i) vst1q_f32(weights + 4 * i, vmulq_f32(codes[i], scales[i]));
  }
}

template <typename Source, std::size_t kCount>
inline void add_stored(const StoredPanel& stored, std::int64_t k, bool odd, const float* input,
                       float32x4_t (&sums)[kCount][3]) {
  float32x4_t weights[3];
  Source::load(stored, k, odd, weights);
  const float32x4_t row = vld1q_f32(input + (k - stored.first) * kRows);
  add_product<0>(sums[0], weights[0], weights[1], weights[2], row);
  if constexpr (kCount > 1) add_product<1>(sums[1], weights[0], weights[1], weights[2], row);
}

// A group of K is summed by itself and scaled as a whole.
template <typename Source, std::size_t kCount>
void multiply_stored_rows(const StoredPanel& stored, const float* input, float* tile, bool accumulate) {
  float32x4_t sums[kCount][3] = {};
  const std::int64_t end = stored.first + stored.depth;
  const std::int64_t length = Source::group(stored);
  for (std::int64_t k = stored.first; k < end;) {
    const std::int64_t group = k / length;
    const std::int64_t stop = (group + 1) * length < end ? (group + 1) * length : end;
    float32x4_t part[kCount][3] = {};
    if (k % 2 != 0) add_stored<Source, kCount>(stored, k++, true, input, part);
    for (; k + 2 <= stop; k += 2) {
      add_stored<Source, kCount>(stored, k, false, input, part);
      add_stored<Source, kCount>(stored, k + 1, true, input, part);
    }
    if (k < stop) add_stored<Source, kCount>(stored, k++, false, input, part);
    for (std::size_t row = 0; row < kCount; ++row) {
      for (std::ptrdiff_t i = 0; i < 3; ++i)
        sums[row][i] = vfmaq_f32(sums[row][i], part[row][i], Source::scale(stored, group, i));
    }
  }
  store_tile<kCount>(sums, tile, accumulate);
}

template <typename Source>
void multiply_stored(const StoredPanel& stored, const void* input, void* tile, int rows, bool accumulate) {
  const auto* a = static_cast<const float*>(input);
  auto* out = static_cast<float*>(tile);
  if (rows == 1) return multiply_stored_rows<Source, 1>(stored, a, out, accumulate);
  multiply_stored_rows<Source, 2>(stored, a, out, accumulate);
}

}  // namespace

MatrixKernel neon_kernel(LinearForm form) {
  MatrixKernel kernel;
  kernel.name = "float32 NEON 8x12";
  kernel.rows = kRows;
  kernel.columns = kColumns;
  kernel.depth_block = 256;
  kernel.pack_input = &PackInput<Neon>::float32<kRows>;
  kernel.multiply = &multiply;
  kernel.finish = &Finish<Neon, float>::run;
  if (form == LinearForm::kBfloat16) {
    kernel.name = "bfloat16 expanded to float32 NEON 8x12";
    kernel.pack_input = &PackInput<Neon>::rounded_float32<kRows>;
    kernel.expand = &ExpandWeights<Neon, kColumns>::bfloat16;
    kernel.multiply_stored = &multiply_stored<Bfloat16Source>;
    kernel.stored_rows = 2;
  } else if (form == LinearForm::kWeightInt8) {
    kernel.name = "int8 weights expanded to float32 NEON 8x12";
    kernel.expand = &expand_int8;
    kernel.multiply_stored = &multiply_stored<Int8Source>;
    kernel.stored_rows = 2;
  } else if (form == LinearForm::kInt4) {
    kernel.name = "int4 expanded to float32 NEON 8x12";
    kernel.expand = &expand_int4;
    kernel.multiply_stored = &multiply_stored<Int4Source>;
    kernel.stored_rows = 2;
  }
  return kernel;
}

}  // namespace kpt::kernels
