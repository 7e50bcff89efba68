#include "kernels/gpu/cuda_wave64_launcher.h"

#include <utility>
#include <vector>

#include "kernels/gpu/cuda_kernels.h"

namespace kpt::gpu {
namespace {

// As kOwnSharedBytes in cuda_launcher.cpp, and what a lane exchanges through (cuda_wave64_lane.h).
constexpr int kOwnSharedBytes = 2 * 1024 + 5 * 1024;

}  // namespace

Result<std::unique_ptr<Launcher>> make_cuda_wave64_launcher(int device) {
  std::vector<CudaEntry> kernels;
#define KPT_ADD_FAMILY(family) add_family(kernels, cuda_wave64_##family##_kernels());
  KPT_GPU_FAMILIES(KPT_ADD_FAMILY)
  KPT_CUDA_FAMILIES(KPT_ADD_FAMILY)
#undef KPT_ADD_FAMILY
  return make_launcher_of(device, std::move(kernels), 64, kOwnSharedBytes);
}

}  // namespace kpt::gpu
