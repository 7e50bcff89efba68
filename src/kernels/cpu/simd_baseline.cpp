#define KPT_SIMD simd_baseline
#include "kernels/cpu/activation_simd.h"
#include "kernels/cpu/attention_simd.h"
#include "kernels/cpu/depthwise_simd.h"
#include "kernels/cpu/few_channels_simd.h"
#include "kernels/cpu/norm_simd.h"

namespace kpt::kernels {

const SimdKernels& baseline_kernels() {
  static constexpr SimdKernels kKernels = {
#if defined(__aarch64__)
      "neon",
#else
      "sse2",
#endif
      simd_baseline::add_rows,
      simd_baseline::norm_row,
      simd_baseline::attend,
      simd_baseline::exp_of_values,
      simd_baseline::activate,
      simd_baseline::sum_depthwise,
      simd_baseline::sum_few_channels,
  };
  return kKernels;
}

}  // namespace kpt::kernels
