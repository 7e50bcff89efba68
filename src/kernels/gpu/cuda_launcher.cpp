#include "kernels/gpu/cuda_launcher.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "kernels/gpu/cuda_kernels.h"

namespace kpt::gpu {
namespace {

std::string_view name_of(const CudaEntry& entry) { return entry.name; }

std::vector<CudaEntry> all_kernels() {
  std::vector<CudaEntry> kernels;
#define KPT_ADD_FAMILY(family) add_family(kernels, cuda_##family##_kernels());
  KPT_GPU_FAMILIES(KPT_ADD_FAMILY)
  KPT_CUDA_FAMILIES(KPT_ADD_FAMILY)
#undef KPT_ADD_FAMILY
  return kernels;
}

// More than a kernel's own arrays and this together must be asked for.
constexpr std::uint32_t kSharedBytesOfAll = 32 * 1024;
constexpr int kOwnSharedBytes = 2 * 1024;  // the most of a kernel that also asks at its launch

class CudaLauncher : public Launcher {
 public:
  // The kernels are sorted by name.
  CudaLauncher(DeviceShape shape, std::vector<CudaEntry> kernels) : shape_(shape), kernels_(std::move(kernels)) {}
  DeviceShape shape() const override { return shape_; }

  Status launch(const Launch& launch, void* stream) override {
    const auto found = std::ranges::lower_bound(kernels_, std::string_view(launch.kernel), {}, name_of);
    if (found == kernels_.end() || found->name != launch.kernel) {
      return {StatusCode::kNotFound, fmt::format("there is no kernel {}", launch.kernel), Vendor::kNvidia};
    }
    alignas(16) std::array<std::byte, kMaxArgBytes> bytes = launch.args;
    void* args[] = {bytes.data()};
    cudaError_t error = cudaSuccess;
    if (launch.shared_bytes > kSharedBytesOfAll) {
      error = cudaFuncSetAttribute(found->function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   static_cast<int>(launch.shared_bytes));
    }
    if (error == cudaSuccess) {
      error = cudaLaunchKernel(found->function, dim3(launch.blocks), dim3(launch.threads), args, launch.shared_bytes,
                               static_cast<cudaStream_t>(stream));
    }
    if (error == cudaSuccess) return {};
    return {StatusCode::kKernelLaunch,
            fmt::format("kernel {} ({} blocks of {} threads) could not be started: {}", launch.kernel, launch.blocks,
                        launch.threads, cudaGetErrorString(error)),
            Vendor::kNvidia};
  }

 private:
  DeviceShape shape_;
  std::vector<CudaEntry> kernels_;
};

}  // namespace

Result<std::unique_ptr<Launcher>> make_launcher_of(int device, std::vector<CudaEntry> kernels, int wave,
                                                   int own_shared_bytes) {
  int count = 0;
  if (const cudaError_t error = cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device);
      error != cudaSuccess) {
    return Status(StatusCode::kDeviceNotAvailable,
                  fmt::format("CUDA device {} cannot be used: {}", device, cudaGetErrorString(error)), Vendor::kNvidia);
  }
  DeviceShape shape{wave, count};
  int shared = 0;
  if (cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) == cudaSuccess) {
    shape.shared_bytes = std::max(0, shared - own_shared_bytes);
  }
  std::ranges::sort(kernels, {}, name_of);
  return std::unique_ptr<Launcher>(std::make_unique<CudaLauncher>(shape, std::move(kernels)));
}

Result<std::unique_ptr<Launcher>> make_cuda_launcher(int device) {
  return make_launcher_of(device, all_kernels(), 32, kOwnSharedBytes);
}

}  // namespace kpt::gpu
