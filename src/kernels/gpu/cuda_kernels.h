// The kernels of each family as functions that CUDA's runtime can start. Made from cuda_kernels.cu.in.
#pragma once

#include <memory>
#include <vector>

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

#define KPT_DECLARE_FAMILY(family)      \
  CudaFamily cuda_##family##_kernels(); \
  CudaFamily cuda_wave64_##family##_kernels();  // in the tests alone
KPT_GPU_FAMILIES(KPT_DECLARE_FAMILY)
KPT_CUDA_FAMILIES(KPT_DECLARE_FAMILY)
#undef KPT_DECLARE_FAMILY

inline void add_family(std::vector<CudaEntry>& kernels, const CudaFamily& family) {
  kernels.insert(kernels.end(), family.entries, family.entries + family.count);
}

// As make_cuda_launcher() (cuda_launcher.h), for these kernels, whose waves have `wave` lanes and of which none that
// asks for shared memory at its launch has more than `own_shared_bytes` of its own.
Result<std::unique_ptr<Launcher>> make_launcher_of(int device, std::vector<CudaEntry> kernels, int wave,
                                                   int own_shared_bytes);

}  // namespace kpt::gpu
