// A kernel of the lists as an entry of a code object. For clang -x hip only; see kernel_sources.h.
#pragma once

#include "kernels/gpu/simt.h"

// The bound lets the compiler use all registers that so many threads leave to each.
#define KPT_HIP_KERNEL(name, Args, threads, ...)                                                           \
  extern "C" __attribute__((global, amdgpu_flat_work_group_size(1, threads))) void name(const Args args) { \
    kpt::gpu::Lane<KPT_WAVE> lane;                                                                         \
    __VA_ARGS__(args, lane);                                                                               \
  }
