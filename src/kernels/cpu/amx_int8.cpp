#include <immintrin.h>

#include "kernels/cpu/amx_tile.h"
#include "kernels/cpu/avx512_int8_products.h"
#include "kernels/cpu/avx512_quantize.h"
#include "kernels/cpu/finish.h"
#include "kernels/cpu/kernel_list.h"

namespace kpt::kernels {
namespace {

// TDPBSSD would take inputs with a sign, but VPDPBUSD, which multiplies few rows, wants them without.
struct AmxInt8 : Avx512Int8Products<AmxInt8> {
  static constexpr int kColumns = 32;
  static constexpr int kVectorRows = 2;
  KPT_AMX_FUNCTIONS("tdpbusd")
};
using Tile = AmxTile<AmxInt8>;
using Quantize = Avx512Quantize<AmxInt8>;

constexpr std::int64_t kDepth = 64;

void store_shifted(char* target, __m512i steps) {
  _mm512_storeu_si512(target, _mm512_xor_si512(steps, _mm512_set1_epi8(static_cast<char>(AmxInt8::kShift))));
}

// One row; `target` is its place in the first unit.
template <typename Element>
void pack_row(const Element* source, std::int64_t depth, float inverse, char* target) {
  const __m512 factor = _mm512_set1_ps(inverse);
  std::int64_t k = 0;
  for (; k + kDepth <= depth; k += kDepth, target += Tile::kUnitBytes) {
    store_shifted(target, Quantize::quantize_64(source + k, factor));
  }
  if (k == depth) return;
  store_shifted(target, Quantize::quantize_part(source + k, depth - k, factor));
}

void copy_row(const std::int8_t* source, std::int64_t depth, char* target) {
  std::int64_t k = 0;
  for (; k + kDepth <= depth; k += kDepth, target += Tile::kUnitBytes) {
    store_shifted(target, _mm512_loadu_si512(source + k));
  }
  if (k == depth) return;
  store_shifted(target, _mm512_maskz_loadu_epi8((std::uint64_t{1} << (depth - k)) - 1, source + k));
}

void pack_rows(const InputRows& input, void* panel, const float* row_scales) {
  for (int row = 0; row < input.count; ++row) {
    const void* source = input.rows[row];
    char* target = static_cast<char*>(panel) + row * Tile::kRowBytes;
    if (input.type == ElementType::kInt8) {
      copy_row(static_cast<const std::int8_t*>(source), input.depth, target);
      continue;
    }
    const float inverse = Quantize::Generic::inverse_of(row_scales[row]);
    if (input.type == ElementType::kFloat32) {
      pack_row(static_cast<const float*>(source), input.depth, inverse, target);
    } else {
      pack_row(static_cast<const std::uint16_t*>(source), input.depth, inverse, target);
    }
  }
}

}  // namespace

MatrixKernel amx_int8_kernel() {
  MatrixKernel kernel;
  kernel.name = "int8 AMX 32x32";
  kernel.rows = Tile::kRows;
  kernel.columns = Tile::kColumns;
  kernel.depth = kDepth;
  kernel.weight_depth = 4;
  kernel.input_bytes = 1;
  kernel.weight_bytes = 1;
  kernel.input_shift = AmxInt8::kShift;
  kernel.depth_block = 512;
  kernel.scale_rows = &Quantize::scale_rows;
  kernel.quantize_row = &Quantize::quantize_row;
  kernel.pack_input = &pack_rows;
  kernel.enter = &Tile::enter;
  kernel.leave = &Tile::leave;
  kernel.multiply = &Tile::multiply;
  kernel.multiply_ahead = &AmxInt8::multiply_ahead;
  kernel.ahead_bytes = 512;
  kernel.multiply_narrow = &Tile::multiply_narrow;
  kernel.narrow_columns = 16;
  kernel.finish = &Finish<AmxInt8, std::int32_t>::run;
  return kernel;
}

}  // namespace kpt::kernels
