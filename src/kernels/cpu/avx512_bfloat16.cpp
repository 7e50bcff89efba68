#include <immintrin.h>

#include "kernels/cpu/avx512_bfloat16_products.h"
#include "kernels/cpu/avx512_tile.h"
#include "kernels/cpu/finish.h"
#include "kernels/cpu/kernel_list.h"
#include "kernels/cpu/pack_input.h"

namespace kpt::kernels {
namespace {

struct Avx512Bfloat16 : Avx512Bfloat16Products<Avx512Bfloat16> {
  static constexpr int kColumns = 48;

  static void add_all(std::int64_t units, const char* input, const char* weights, void* sums, bool accumulate) {
    const void* next = nullptr;
    KPT_AVX512_TILE(KPT_TILE_UNIT, "vdpbf16ps", KPT_TILE_ADD_FLOATS, KPT_TILE_NOTHING_AHEAD, units, input, weights,
                    sums, next, accumulate);
  }
  static void add_all_ahead(std::int64_t units, const char* input, const char* weights, void* sums, const void* next,
                            bool accumulate) {
    KPT_AVX512_TILE(KPT_TILE_UNIT, "vdpbf16ps", KPT_TILE_ADD_FLOATS, KPT_TILE_AHEAD, units, input, weights, sums, next,
                    accumulate);
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
  kernel.multiply_ahead = &Avx512Tile<Avx512Bfloat16>::multiply_ahead;
  kernel.ahead_bytes = Avx512Tile<Avx512Bfloat16>::kAheadBytes;
  kernel.multiply_narrow = &Avx512Tile<Avx512Bfloat16>::multiply_narrow;
  kernel.narrow_columns = 32;
  kernel.finish = &Finish<Avx512Bfloat16, float>::run;
  return kernel;
}

}  // namespace kpt::kernels
