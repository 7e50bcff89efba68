#include <arm_neon.h>

#include "kernels/cpu/finish.h"
#include "kernels/cpu/kernel_list.h"
#include "kernels/cpu/neon_matrix_tile.h"
#include "kernels/cpu/neon_quantize.h"

namespace kpt::kernels {
namespace {

struct NeonInt8 {
  static constexpr int kWidth = 4;
  static constexpr int kRows = 8;
  static constexpr int kColumns = 12;
  using Input = int8x16_t;
  using Sum = int32x4_t;
  using Scalar = std::int32_t;

  static Input load(const char* address) { return vld1q_s8(reinterpret_cast<const std::int8_t*>(address)); }
  static Sum add_product(Sum sum, Input rows, Input columns) { return vmmlaq_s32(sum, rows, columns); }
  static Sum add(Sum a, Sum b) { return vaddq_s32(a, b); }
  static void add_all(std::int64_t units, const char* input, const char* weights, Sum* blocks) {
    KPT_NEON_MATRIX_TILE("smmla", "16b", units, input, weights, blocks);
  }
  static Sum upper_row(Sum left, Sum right) { return vcombine_s32(vget_low_s32(left), vget_low_s32(right)); }
  static Sum lower_row(Sum left, Sum right) { return vcombine_s32(vget_high_s32(left), vget_high_s32(right)); }
  static void store(std::int32_t* target, Sum value, bool accumulate) {
    vst1q_s32(target, accumulate ? vaddq_s32(vld1q_s32(target), value) : value);
  }
};

}  // namespace

MatrixKernel neon_int8_matrix_kernel() {
  MatrixKernel kernel;
  kernel.name = "int8 NEON SMMLA 8x12";
  kernel.rows = NeonInt8::kRows;
  kernel.columns = NeonInt8::kColumns;
  kernel.depth = 8;
  kernel.input_bytes = 1;
  kernel.weight_bytes = 1;
  kernel.depth_block = 2048;
  kernel.scale_rows = &NeonQuantize<NeonInt8, NeonInt8::kRows, 8>::scales;
  kernel.quantize_row = &NeonQuantize<NeonInt8, NeonInt8::kRows, 8>::quantize_row;
  kernel.pack_input = &NeonQuantize<NeonInt8, NeonInt8::kRows, 8>::pack;
  kernel.multiply = &NeonMatrixTile<NeonInt8>::multiply;
  kernel.finish = &Finish<NeonInt8, std::int32_t>::run;
  return kernel;
}

}  // namespace kpt::kernels
