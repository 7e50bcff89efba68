#define KPT_SIMD simd_avx512
#include "kernels/cpu/activation_simd.h"
#include "kernels/cpu/attention_simd.h"
#include "kernels/cpu/depthwise_simd.h"
#include "kernels/cpu/few_channels_simd.h"
#include "kernels/cpu/norm_simd.h"

namespace kpt::kernels {

const SimdKernels& avx512_kernels() {
  static constexpr SimdKernels kKernels = {
      "avx512",
      simd_avx512::add_rows,
      simd_avx512::norm_row,
      simd_avx512::attend,
      simd_avx512::exp_of_values,
      simd_avx512::activate,
      simd_avx512::sum_depthwise,
      simd_avx512::sum_few_channels,
  };
  return kKernels;
}

}  // namespace kpt::kernels
