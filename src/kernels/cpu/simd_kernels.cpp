#include "kernels/cpu/simd_kernels.h"

#if defined(__x86_64__)
#include "kernels/cpu/cpu_features.h"
#endif

namespace kpt::kernels {

const SimdKernels& simd_kernels() {
#if defined(__x86_64__)
  if (cpu_features().avx512) return avx512_kernels();
  if (cpu_features().avx2) return avx2_kernels();
#endif
  return baseline_kernels();
}

}  // namespace kpt::kernels
