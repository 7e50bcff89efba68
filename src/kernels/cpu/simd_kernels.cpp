#include "kernels/cpu/simd_kernels.h"

namespace kpt::kernels {

const SimdKernels& simd_kernels([[maybe_unused]] CpuFeatures features) {
#if defined(__x86_64__)
  if (features.avx512) return avx512_kernels();
  if (features.avx2) return avx2_kernels();
#endif
  return baseline_kernels();
}

}  // namespace kpt::kernels
