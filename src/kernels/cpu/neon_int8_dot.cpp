#include <arm_neon.h>

#include <cstring>

#include "kernels/cpu/finish.h"
#include "kernels/cpu/kernel_list.h"
#include "kernels/cpu/neon_lane_tile.h"
#include "kernels/cpu/neon_quantize.h"

namespace kpt::kernels {
namespace {

constexpr std::ptrdiff_t kRows = 8;
constexpr std::ptrdiff_t kColumns = 12;
constexpr std::ptrdiff_t kDepth = 4;

struct NeonDot {
  static constexpr int kWidth = 4;
  static constexpr int kColumns = kernels::kColumns;
};

template <int kLane>
inline void add_product(int32x4_t (&sum)[3], int8x16_t w0, int8x16_t w1, int8x16_t w2, int8x16_t input) {
  sum[0] = vdotq_laneq_s32(sum[0], w0, input, kLane);
  sum[1] = vdotq_laneq_s32(sum[1], w1, input, kLane);
  sum[2] = vdotq_laneq_s32(sum[2], w2, input, kLane);
}

template <std::size_t kCount>
inline void add_unit(int32x4_t (&sums)[kCount][3], const std::int8_t* input, const std::int8_t* weights) {
  const int8x16_t w0 = vld1q_s8(weights);
  const int8x16_t w1 = vld1q_s8(weights + 16);
  const int8x16_t w2 = vld1q_s8(weights + 32);
  const int8x16_t low = vld1q_s8(input);
  add_product<0>(sums[0], w0, w1, w2, low);
  if constexpr (kCount > 1) add_product<1>(sums[1], w0, w1, w2, low);
  if constexpr (kCount > 2) add_product<2>(sums[2], w0, w1, w2, low);
  if constexpr (kCount > 3) add_product<3>(sums[3], w0, w1, w2, low);
}

// Few rows get two sets of sums, so that the chains of dependent additions fill the pipes.
template <std::size_t kCount>
void multiply_rows(std::int64_t units, const std::int8_t* input, const std::int8_t* weights, std::int32_t* tile,
                   bool accumulate) {
  constexpr std::size_t kSets = 2;
  constexpr std::ptrdiff_t kInputStep = kRows * kDepth;
  constexpr std::ptrdiff_t kWeightStep = kColumns * kDepth;
  int32x4_t sums[kSets][kCount][3] = {};
  std::int64_t unit = 0;
  for (; unit + 2 <= units; unit += 2, input += 2 * kInputStep, weights += 2 * kWeightStep) {
    __builtin_prefetch(weights + 16 * kWeightStep);
    add_unit<kCount>(sums[0], input, weights);
    add_unit<kCount>(sums[1 % kSets], input + kInputStep, weights + kWeightStep);
  }
  if (unit < units) add_unit<kCount>(sums[0], input, weights);
  for (std::size_t row = 0; row < kCount; ++row) {
    for (std::size_t part = 0; part < 3; ++part) {
      int32x4_t sum = sums[0][row][part];
      if constexpr (kSets == 2) sum = vaddq_s32(sum, sums[1][row][part]);
      std::int32_t* target = tile + row * kColumns + part * 4;
      vst1q_s32(target, accumulate ? vaddq_s32(vld1q_s32(target), sum) : sum);
    }
  }
}

void multiply_tile(std::int64_t units, const std::int8_t* input, const std::int8_t* weights, std::int32_t* tile,
                   bool accumulate) {
  if (!accumulate) std::memset(tile, 0, sizeof(std::int32_t) * kRows * kColumns);
  if (units <= 0) return;
  KPT_NEON_LANE_TILE("sdot", "16b", "4b", units, input, weights, tile);
}

void multiply(std::int64_t units, const void* input, const void* weights, void* tile, int rows, bool accumulate) {
  const auto* a = static_cast<const std::int8_t*>(input);
  const auto* w = static_cast<const std::int8_t*>(weights);
  auto* out = static_cast<std::int32_t*>(tile);
  switch (rows) {
    case 1: return multiply_rows<1>(units, a, w, out, accumulate);
    case 2: return multiply_rows<2>(units, a, w, out, accumulate);
    case 3: return multiply_rows<3>(units, a, w, out, accumulate);
    case 4: return multiply_rows<4>(units, a, w, out, accumulate);
    default: return multiply_tile(units, a, w, out, accumulate);  // faster than five rows alone
  }
}

}  // namespace

MatrixKernel neon_int8_dot_kernel() {
  MatrixKernel kernel;
  kernel.name = "int8 NEON SDOT 8x12";
  kernel.rows = kRows;
  kernel.columns = kColumns;
  kernel.depth = kDepth;
  kernel.input_bytes = 1;
  kernel.weight_bytes = 1;
  kernel.depth_block = 2048;
  kernel.scale_rows = &NeonQuantize<NeonDot, kRows, kDepth>::scales;
  kernel.quantize_row = &NeonQuantize<NeonDot, kRows, kDepth>::quantize_row;
  kernel.pack_input = &NeonQuantize<NeonDot, kRows, kDepth>::pack;
  kernel.multiply = &multiply;
  kernel.finish = &Finish<NeonDot, std::int32_t>::run;
  return kernel;
}

}  // namespace kpt::kernels
