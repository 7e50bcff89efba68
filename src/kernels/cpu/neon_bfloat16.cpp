#include <arm_neon.h>

#include "kernels/cpu/finish.h"
#include "kernels/cpu/kernel_list.h"
#include "kernels/cpu/neon_matrix_tile.h"
#include "kernels/cpu/pack_input.h"

namespace kpt::kernels {
namespace {

struct NeonBfloat16 {
  static constexpr int kWidth = 4;
  static constexpr int kRows = 8;
  static constexpr int kColumns = 12;
  using Input = bfloat16x8_t;
  using Sum = float32x4_t;
  using Scalar = float;

  static Input load(const char* address) { return vld1q_bf16(reinterpret_cast<const bfloat16_t*>(address)); }
  static Sum add_product(Sum sum, Input rows, Input columns) { return vbfmmlaq_f32(sum, rows, columns); }
  static Sum add(Sum a, Sum b) { return vaddq_f32(a, b); }
  static void add_all(std::int64_t units, const char* input, const char* weights, Sum* blocks) {
    KPT_NEON_MATRIX_TILE("bfmmla", "8h", units, input, weights, blocks);
  }
  static Sum upper_row(Sum left, Sum right) { return vcombine_f32(vget_low_f32(left), vget_low_f32(right)); }
  static Sum lower_row(Sum left, Sum right) { return vcombine_f32(vget_high_f32(left), vget_high_f32(right)); }
  static void store(float* target, Sum value, bool accumulate) {
    vst1q_f32(target, accumulate ? vaddq_f32(vld1q_f32(target), value) : value);
  }
};

// Rows of float, eight elements at a time by the processor's own conversion; the rest and rows of bfloat16 as in every
// other kernel.
void pack_input(const InputRows& input, void* panel, const float* row_scales) {
  using Generic = PackInput<NeonBfloat16>;
  if (input.type != ElementType::kFloat32) {
    return Generic::bfloat16<NeonBfloat16::kRows, 4>(input, panel, row_scales);
  }
  const std::int64_t whole = input.depth / 8 * 8;
  constexpr std::int64_t kUnit = std::int64_t{NeonBfloat16::kRows} * 4;
  auto* target = static_cast<bfloat16_t*>(panel);
  InputRows rest = input;
  rest.depth = input.depth - whole;
  for (int row = 0; row < input.count; ++row) {
    const auto* source = static_cast<const float*>(input.rows[row]);
    bfloat16_t* place = target + std::ptrdiff_t{row} * 4;
    for (std::int64_t k = 0; k < whole; k += 8, place += 2 * kUnit) {
      vst1_bf16(place, vcvt_bf16_f32(vld1q_f32(source + k)));
      vst1_bf16(place + kUnit, vcvt_bf16_f32(vld1q_f32(source + k + 4)));
    }
    rest.rows[row] = source + whole;
  }
  if (rest.depth > 0) Generic::bfloat16<NeonBfloat16::kRows, 4>(rest, target + whole / 4 * kUnit, row_scales);
}

}  // namespace

MatrixKernel neon_bfloat16_matrix_kernel() {
  MatrixKernel kernel;
  kernel.name = "bfloat16 NEON BFMMLA 8x12";
  kernel.rows = NeonBfloat16::kRows;
  kernel.columns = NeonBfloat16::kColumns;
  kernel.depth = 4;
  kernel.input_bytes = 2;
  kernel.weight_bytes = 2;
  kernel.depth_block = 1024;
  kernel.pack_input = &pack_input;
  kernel.multiply = &NeonMatrixTile<NeonBfloat16>::multiply;
  kernel.finish = &Finish<NeonBfloat16, float>::run;
  return kernel;
}

}  // namespace kpt::kernels
