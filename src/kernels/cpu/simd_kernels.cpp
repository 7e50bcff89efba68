#include "kernels/cpu/simd_kernels.h"

#if defined(__x86_64__)
#include "kernels/cpu/cpu_features.h"
#endif

namespace kpt::kernels {
namespace {

const SimdKernels& choose() {
#if defined(__x86_64__)
  if (cpu_features().avx512) return avx512_kernels();
  if (cpu_features().avx2) return avx2_kernels();
#endif
  return baseline_kernels();
}

}  // namespace

const SimdKernels& simd_kernels() {
  static const SimdKernels& chosen = choose();
  return chosen;
}

}  // namespace kpt::kernels
