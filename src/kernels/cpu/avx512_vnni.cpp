#include <immintrin.h>

#include <cstring>

#include "kernels/cpu/avx512_tile.h"
#include "kernels/cpu/finish.h"
#include "kernels/cpu/kernel_list.h"
#include "kernels/cpu/pack_input.h"

namespace kpt::kernels {
namespace {

// VPDPBUSD wants one operand without a sign: inputs are stored with 128 added, and what that adds to each column is
// taken off at the end.
struct Vnni {
  static constexpr int kWidth = 16;
  static constexpr int kColumns = 48;
  static constexpr int kShift = 128;
  using Sum = __m512i;
  using Scalar = std::int32_t;

  static Sum zero() { return _mm512_setzero_si512(); }
  static Sum add(Sum a, Sum b) { return _mm512_add_epi32(a, b); }
  static Sum load(const std::int32_t* address) { return _mm512_loadu_si512(address); }
  static void store(std::int32_t* address, Sum value) { _mm512_storeu_si512(address, value); }
  static Sum add_product(Sum sum, const char* input, const char* weights) {
    std::int32_t four = 0;
    std::memcpy(&four, input, sizeof(four));
    return _mm512_dpbusd_epi32(sum, _mm512_set1_epi32(four), _mm512_loadu_si512(weights));
  }
};

}  // namespace

MatrixKernel avx512_vnni_kernel() {
  MatrixKernel kernel;
  kernel.name = "int8 AVX-512 VNNI 8x48";
  kernel.rows = 8;
  kernel.columns = Vnni::kColumns;
  kernel.depth = 4;
  kernel.input_bytes = 1;
  kernel.weight_bytes = 1;
  kernel.input_shift = Vnni::kShift;
  kernel.depth_block = 768;
  kernel.scale_rows = &PackInput<Vnni>::int8_scales;
  kernel.pack_input = &PackInput<Vnni>::int8<8, 4, std::uint8_t, Vnni::kShift>;
  kernel.multiply = &Avx512Tile<Vnni>::multiply;
  kernel.finish = &Finish<Vnni, std::int32_t>::run;
  return kernel;
}

}  // namespace kpt::kernels
