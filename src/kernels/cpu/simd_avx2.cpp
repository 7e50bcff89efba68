#define KPT_SIMD simd_avx2
#include "kernels/cpu/activation_simd.h"
#include "kernels/cpu/attention_simd.h"
#include "kernels/cpu/depthwise_simd.h"
#include "kernels/cpu/few_channels_simd.h"
#include "kernels/cpu/norm_simd.h"

namespace kpt::kernels {

const SimdKernels& avx2_kernels() {
  static constexpr SimdKernels kKernels = {
      "avx2",
      simd_avx2::add_rows,
      simd_avx2::norm_row,
      simd_avx2::attend,
      simd_avx2::exp_of_values,
      simd_avx2::activate,
      simd_avx2::sum_depthwise,
      simd_avx2::sum_few_channels,
  };
  return kKernels;
}

}  // namespace kpt::kernels
