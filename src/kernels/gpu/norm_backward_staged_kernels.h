// norm_backward_kernels.h with the next one to three rows on their way into shared memory while a row is computed: for
// NVIDIA alone, whose copies go on by themselves. There is no entry for AMD, and no plan for a device without
// DeviceShape::shared_bytes leads here.
//
//   norm_backward_staged         up to 3 or 4 accesses a thread
//   norm_backward_narrow_staged  some lanes of a wave for each row, one access each, and 2 or 4 rows for each lane
#pragma once

#include "kernels/gpu/norm_backward_staged.h"

namespace kpt::gpu {

#define KPT_NORM_BACKWARD_STAGED_OF(X, T, type)                                                    \
  X(norm_backward_narrow_staged2_##type, NormBackwardArgs, 768, norm_backward_narrow_staged<T, 2>) \
  X(norm_backward_narrow_staged4_##type, NormBackwardArgs, 512, norm_backward_narrow_staged<T, 4>) \
  X(norm_backward_staged3_##type, NormBackwardArgs, 640, norm_backward_staged<T, 3>)               \
  X(norm_backward_staged4_##type, NormBackwardArgs, 512, norm_backward_staged<T, 4>)
#define KPT_NORM_BACKWARD_STAGED_KERNELS(X)  \
  KPT_NORM_BACKWARD_STAGED_OF(X, float, f32) \
  KPT_NORM_BACKWARD_STAGED_OF(X, Half, f16)  \
  KPT_NORM_BACKWARD_STAGED_OF(X, BFloat, bf16)

}  // namespace kpt::gpu
