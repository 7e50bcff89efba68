// The kernels of each family as functions that CUDA's runtime can start. Made from cuda_kernels.cu.in.
#pragma once

#include "kernels/gpu/host_kernels.h"

namespace kpt::gpu {

struct CudaEntry {
  const char* name;
  const void* function;
};

struct CudaFamily {
  const CudaEntry* entries;
  std::size_t count;
};

#define KPT_DECLARE_FAMILY(family) CudaFamily cuda_##family##_kernels();
KPT_GPU_FAMILIES(KPT_DECLARE_FAMILY)
#undef KPT_DECLARE_FAMILY

}  // namespace kpt::gpu
