#include <immintrin.h>

#include "kernels/cpu/avx512_float32_tile.h"
#include "kernels/cpu/avx512_tile.h"
#include "kernels/cpu/expand_weights.h"
#include "kernels/cpu/finish.h"
#include "kernels/cpu/kernel_list.h"
#include "kernels/cpu/pack_input.h"
#include "kernels/cpu/winograd_simd.h"

namespace kpt::kernels {
namespace {

struct Avx512 : ExpandCodes<48> {
  static constexpr int kWidth = 16;
  static constexpr int kColumns = 48;
  using Sum = __m512;
  using Scalar = float;

  static Sum zero() { return _mm512_setzero_ps(); }
  static Sum add(Sum a, Sum b) { return _mm512_add_ps(a, b); }
  static Sum load(const float* address) { return _mm512_loadu_ps(address); }
  static void store(float* address, Sum value) { _mm512_storeu_ps(address, value); }
  static Sum load_weights(const char* address) { return load(reinterpret_cast<const float*>(address)); }
  static Sum spread(const char* input) { return _mm512_set1_ps(*reinterpret_cast<const float*>(input)); }
  static Sum add_product(Sum sum, Sum input, Sum weights) { return _mm512_fmadd_ps(input, weights, sum); }
  static void add_all(std::int64_t units, const char* input, const char* weights, void* sums, bool accumulate) {
    const void* next = nullptr;
    KPT_AVX512_TILE(KPT_TILE_UNIT_SWAPPED, "vfmadd231ps", KPT_TILE_ADD_FLOATS, KPT_TILE_NOTHING_AHEAD, units, input,
                    weights, sums, next, accumulate);
  }
  static void add_all_ahead(std::int64_t units, const char* input, const char* weights, void* sums, const void* next,
                            bool accumulate) {
    KPT_AVX512_TILE(KPT_TILE_UNIT_SWAPPED, "vfmadd231ps", KPT_TILE_ADD_FLOATS, KPT_TILE_AHEAD, units, input, weights,
                    sums, next, accumulate);
  }
};

struct Avx512Float32 {
  static constexpr int kWidth = 16;
  static constexpr int kColumns = 32;
};

}  // namespace

MatrixKernel avx512_kernel(LinearForm form) {
  MatrixKernel kernel;
  kernel.name = "float32 AVX-512 8x48";
  kernel.rows = 8;
  kernel.columns = Avx512::kColumns;
  kernel.depth_block = 384;
  kernel.pack_input = &PackInput<Avx512>::float32<8>;
  kernel.multiply = &Avx512Tile<Avx512>::multiply;
  kernel.multiply_ahead = &Avx512Tile<Avx512>::multiply_ahead;
  kernel.ahead_bytes = Avx512Tile<Avx512>::kAheadBytes;
  kernel.multiply_narrow = &Avx512Tile<Avx512>::multiply_narrow;
  kernel.narrow_columns = 32;
  kernel.finish = &Finish<Avx512, float>::run;
  if (form != LinearForm::kFloat32) kernel.depth_block = 192;  // what is expanded at once stays near L1
  if (form == LinearForm::kBfloat16) {
    kernel.name = "bfloat16 expanded to float32 AVX-512 8x48";
    kernel.pack_input = &PackInput<Avx512>::rounded_float32<8>;
    kernel.expand = &ExpandWeights<Avx512, Avx512::kColumns>::bfloat16;
  } else if (form == LinearForm::kWeightInt8) {
    kernel.name = "int8 weights expanded to float32 AVX-512 8x48";
    kernel.expand = &ExpandWeights<Avx512, Avx512::kColumns>::int8;
  } else if (form == LinearForm::kInt4) {
    kernel.name = "int4 expanded to float32 AVX-512 8x48";
    kernel.expand = &ExpandWeights<Avx512, Avx512::kColumns>::int4;
  }
  return kernel;
}

MatrixKernel avx512_streamed_kernel() {
  using Tile = Float32Tile<Avx512Float32>;
  MatrixKernel kernel;
  kernel.name = "float32 AVX-512 14x32";
  kernel.rows = Tile::kRows;
  kernel.columns = Tile::kColumns;
  kernel.depth = Tile::kDepth;
  kernel.weight_depth = 1;
  kernel.depth_block = 256;
  kernel.pack_input = &Tile::pack_input;
  kernel.multiply = &Tile::multiply;
  kernel.multiply_narrow = &Tile::multiply_narrow;
  kernel.narrow_columns = 16;
  kernel.multiply_streamed = &Tile::multiply_streamed;
  kernel.ahead_bytes = Tile::kAheadBytes;
  kernel.transform_input = &Winograd<Avx512Float32>::transform_input;
  kernel.transform_output = &Winograd<Avx512Float32>::transform_output;
  kernel.finish = &Finish<Avx512Float32, float>::run;
  return kernel;
}

}  // namespace kpt::kernels
