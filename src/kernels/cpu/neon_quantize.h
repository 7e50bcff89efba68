// Quantizing of A's rows by NEON, for both int8 kernels. See vector_math.h for `Isa`.
#pragma once

#include <arm_neon.h>

#include "kernels/cpu/pack_input.h"

namespace kpt::kernels {

template <typename Isa, std::ptrdiff_t kRows, std::ptrdiff_t kDepth>
struct NeonQuantize {
  using Generic = PackInput<Isa>;

  static void scales(const InputRows& input, float* row_scales) {
    if (input.type != ElementType::kFloat32) return Generic::int8_scales(input, row_scales);
    for (int row = 0; row < input.count; ++row) {
      const auto* source = static_cast<const std::int32_t*>(input.rows[row]);
      // As integers the magnitudes of floats order like the floats, with NaN above infinity.
      const int32x4_t magnitude = vdupq_n_s32(0x7FFFFFFF);
      int32x4_t greatest[4] = {};
      std::int64_t k = 0;
      for (; k + 16 <= input.depth; k += 16) {
        for (std::ptrdiff_t i = 0; i < 4; ++i) {
          greatest[i] = vmaxq_s32(greatest[i], vandq_s32(vld1q_s32(source + k + 4 * i), magnitude));
        }
      }
      std::int32_t most =
          vmaxvq_s32(vmaxq_s32(vmaxq_s32(greatest[0], greatest[1]), vmaxq_s32(greatest[2], greatest[3])));
      for (; k < input.depth; ++k) {
        const std::int32_t one = source[k] & 0x7FFFFFFF;
        most = one > most ? one : most;
      }
      float value;
      std::memcpy(&value, &most, sizeof(value));
      row_scales[row] = value <= 3.4028234663852886e38F ? value / 127.0F : __builtin_nanf("");
    }
  }

  static void pack(const InputRows& input, void* panel, const float* row_scales) {
    if (input.type != ElementType::kFloat32) {
      return Generic::template int8<kRows, kDepth, std::int8_t, 0>(input, panel, row_scales);
    }
    const std::int64_t whole = input.depth / 16 * 16;
    InputRows rest = input;
    rest.depth = input.depth - whole;
    auto* target = static_cast<std::int8_t*>(panel);
    for (int row = 0; row < input.count; ++row) {
      const auto* source = static_cast<const float*>(input.rows[row]);
      rest.rows[row] = source + whole;
      const float inverse = Generic::inverse_of(row_scales[row]);
      if (!(inverse > 0.0F)) {
        fill_zero(target, row, whole);
        continue;
      }
      for (std::int64_t k = 0; k < whole; k += 16) {
        put(target + (k / kDepth * kRows + row) * kDepth, quantize(source + k, inverse));
      }
    }
    if (rest.depth == 0) return;
    Generic::template int8<kRows, kDepth, std::int8_t, 0>(rest, target + whole * kRows, row_scales);
  }

  static void quantize_row(const InputRows& input, float scale, std::int8_t* target) {
    const float inverse = Generic::inverse_of(scale);
    if (input.type != ElementType::kFloat32 || !(inverse > 0.0F)) return Generic::quantize_row(input, scale, target);
    const auto* source = static_cast<const float*>(input.rows[0]);
    const std::int64_t whole = input.depth / 16 * 16;
    for (std::int64_t k = 0; k < whole; k += 16) vst1q_s8(target + k, quantize(source + k, inverse));
    InputRows rest = input;
    rest.rows[0] = source + whole;
    rest.depth = input.depth - whole;
    Generic::quantize_row(rest, scale, target + whole);
  }

 private:
  static int8x16_t quantize(const float* source, float inverse) {
    int32x4_t q[4];
    for (std::ptrdiff_t i = 0; i < 4; ++i) q[i] = vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(source + 4 * i), inverse));
    const int16x8_t low = vcombine_s16(vmovn_s32(q[0]), vmovn_s32(q[1]));
    const int16x8_t high = vcombine_s16(vmovn_s32(q[2]), vmovn_s32(q[3]));
    return vcombine_s8(vmovn_s16(low), vmovn_s16(high));
  }
  // 16 elements of one row, spread over their units.
  static void put(std::int8_t* place, int8x16_t value) {
    constexpr std::ptrdiff_t kUnit = kRows * kDepth;
    if constexpr (kDepth == 8) {
      vst1_s8(place, vget_low_s8(value));
      vst1_s8(place + kUnit, vget_high_s8(value));
    } else {
      static_assert(kDepth == 4);
      const int32x4_t words = vreinterpretq_s32_s8(value);
      const std::int32_t four[4] = {vgetq_lane_s32(words, 0), vgetq_lane_s32(words, 1), vgetq_lane_s32(words, 2),
                                    vgetq_lane_s32(words, 3)};
      for (std::ptrdiff_t i = 0; i < 4; ++i) std::memcpy(place + i * kUnit, &four[i], sizeof(four[i]));
    }
  }
  static void fill_zero(std::int8_t* panel, int row, std::int64_t depth) {
    for (std::int64_t k = 0; k < depth; k += 16) put(panel + (k / kDepth * kRows + row) * kDepth, vdupq_n_s8(0));
  }
};

}  // namespace kpt::kernels
