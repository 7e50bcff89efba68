#include <immintrin.h>

#include <bit>
#include <cstring>

#include "kernels/cpu/avx512_tile.h"
#include "kernels/cpu/finish.h"
#include "kernels/cpu/kernel_list.h"
#include "kernels/cpu/pack_input.h"

namespace kpt::kernels {
namespace {

struct Avx512Bfloat16 {
  static constexpr int kWidth = 16;
  static constexpr int kColumns = 48;
  using Sum = __m512;
  using Scalar = float;

  static Sum zero() { return _mm512_setzero_ps(); }
  static Sum add(Sum a, Sum b) { return _mm512_add_ps(a, b); }
  static Sum load(const float* address) { return _mm512_loadu_ps(address); }
  static void store(float* address, Sum value) { _mm512_storeu_ps(address, value); }
  static __m512bh load_weights(const char* address) { return std::bit_cast<__m512bh>(_mm512_loadu_si512(address)); }
  static __m512bh spread(const char* input) {
    std::int32_t pair = 0;
    std::memcpy(&pair, input, sizeof(pair));
    return std::bit_cast<__m512bh>(_mm512_set1_epi32(pair));
  }
  static Sum add_product(Sum sum, __m512bh input, __m512bh weights) { return _mm512_dpbf16_ps(sum, input, weights); }
  static void add_all(std::int64_t units, const char* input, const char* weights, void* sums, bool accumulate) {
    KPT_AVX512_TILE(KPT_TILE_UNIT, "vdpbf16ps", KPT_TILE_ADD_FLOATS, units, input, weights, sums, accumulate);
  }
};

}  // namespace

MatrixKernel avx512_bfloat16_kernel() {
  MatrixKernel kernel;
  kernel.name = "bfloat16 AVX-512 BF16 8x48";
  kernel.rows = 8;
  kernel.columns = Avx512Bfloat16::kColumns;
  kernel.depth = 2;
  kernel.input_bytes = 2;
  kernel.weight_bytes = 2;
  kernel.depth_block = 384;
  kernel.pack_input = &PackInput<Avx512Bfloat16>::bfloat16<8, 2>;
  kernel.multiply = &Avx512Tile<Avx512Bfloat16>::multiply;
  kernel.multiply_narrow = &Avx512Tile<Avx512Bfloat16>::multiply_narrow;
  kernel.narrow_columns = 32;
  kernel.finish = &Finish<Avx512Bfloat16, float>::run;
  return kernel;
}

}  // namespace kpt::kernels
