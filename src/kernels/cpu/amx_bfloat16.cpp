#include <immintrin.h>

#include <bit>

#include "kernels/cpu/amx_tile.h"
#include "kernels/cpu/avx512_bfloat16_products.h"
#include "kernels/cpu/finish.h"
#include "kernels/cpu/kernel_list.h"

namespace kpt::kernels {
namespace {

struct AmxBfloat16 : Avx512Bfloat16Products<AmxBfloat16> {
  static constexpr int kColumns = 32;
  static constexpr int kVectorRows = 1;
  KPT_AMX_FUNCTIONS("tdpbf16ps")
};
using Tile = AmxTile<AmxBfloat16>;

constexpr std::int64_t kDepth = 32;

__mmask16 mask_of(std::int64_t count) { return static_cast<__mmask16>(count >= 16 ? 0xFFFF : (1U << count) - 1); }

// Up to 32 elements, zeros behind them. Numbers below the normal ones become zero, which the product would make of them
// anyway.
__m512i round_floats(const float* source, std::int64_t count) {
  if (count >= kDepth) {
    return std::bit_cast<__m512i>(_mm512_cvtne2ps_pbh(_mm512_loadu_ps(source + 16), _mm512_loadu_ps(source)));
  }
  const __m512 low = _mm512_maskz_loadu_ps(mask_of(count), source);
  const __m512 high = count > 16 ? _mm512_maskz_loadu_ps(mask_of(count - 16), source + 16) : _mm512_setzero_ps();
  return std::bit_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
}

__m512i load_halves(const std::uint16_t* source, std::int64_t count) {
  if (count >= kDepth) return _mm512_loadu_si512(source);
  return _mm512_maskz_loadu_epi16(static_cast<__mmask32>((1U << count) - 1), source);
}

void pack_rows(const InputRows& input, void* panel, const float* /*row_scales*/) {
  const auto pack = [&](const auto* const* rows, auto&& load) {
    for (int row = 0; row < input.count; ++row) {
      const auto* source = rows[row];
      char* target = static_cast<char*>(panel) + row * Tile::kRowBytes;
      for (std::int64_t k = 0; k < input.depth; k += kDepth, target += Tile::kUnitBytes) {
        _mm512_storeu_si512(target, load(source + k, input.depth - k));
      }
    }
  };
  if (input.type == ElementType::kFloat32) return pack(reinterpret_cast<const float* const*>(input.rows), round_floats);
  pack(reinterpret_cast<const std::uint16_t* const*>(input.rows), load_halves);
}

}  // namespace

MatrixKernel amx_bfloat16_kernel() {
  MatrixKernel kernel;
  kernel.name = "bfloat16 AMX 32x32";
  kernel.rows = Tile::kRows;
  kernel.columns = Tile::kColumns;
  kernel.depth = kDepth;
  kernel.weight_depth = 2;
  kernel.input_bytes = 2;
  kernel.weight_bytes = 2;
  kernel.depth_block = 256;
  kernel.pack_input = &pack_rows;
  kernel.enter = &Tile::enter;
  kernel.leave = &Tile::leave;
  kernel.multiply = &Tile::multiply;
  kernel.multiply_ahead = &AmxBfloat16::multiply_ahead;
  kernel.ahead_bytes = 512;
  kernel.multiply_narrow = &Tile::multiply_narrow;
  kernel.narrow_columns = 16;
  kernel.finish = &Finish<AmxBfloat16, float>::run;
  return kernel;
}

}  // namespace kpt::kernels
