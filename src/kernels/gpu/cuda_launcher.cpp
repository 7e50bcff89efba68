#include "kernels/gpu/cuda_launcher.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "kernels/gpu/cuda_kernels.h"

namespace kpt::gpu {
namespace {

const std::vector<CudaEntry>& cuda_entries() {
  static const std::vector<CudaEntry> entries = [] {
    std::vector<CudaEntry> all;
#define KPT_ADD_FAMILY(family)                                         \
  {                                                                    \
    const CudaFamily found = cuda_##family##_kernels();                \
    all.insert(all.end(), found.entries, found.entries + found.count); \
  }
    KPT_GPU_FAMILIES(KPT_ADD_FAMILY)
#undef KPT_ADD_FAMILY
    std::ranges::sort(all, {}, [](const CudaEntry& entry) { return std::string_view(entry.name); });
    return all;
  }();
  return entries;
}

// More than a kernel's own arrays and this together must be asked for.
constexpr std::uint32_t kSharedBytesOfAll = 32 * 1024;
constexpr int kOwnSharedBytes = 2 * 1024;  // the most of a kernel that also asks at its launch

class CudaLauncher : public Launcher {
 public:
  explicit CudaLauncher(DeviceShape shape) : shape_(shape) {}
  DeviceShape shape() const override { return shape_; }

  Status launch(const Launch& launch, void* stream) override {
    const auto& entries = cuda_entries();
    const auto found = std::ranges::lower_bound(entries, std::string_view(launch.kernel), {},
                                                [](const CudaEntry& entry) { return std::string_view(entry.name); });
    if (found == entries.end() || found->name != launch.kernel) {
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
};

}  // namespace

Result<std::unique_ptr<Launcher>> make_cuda_launcher(int device) {
  int count = 0;
  if (const cudaError_t error = cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device);
      error != cudaSuccess) {
    return Status(StatusCode::kDeviceNotAvailable,
                  fmt::format("CUDA device {} cannot be used: {}", device, cudaGetErrorString(error)), Vendor::kNvidia);
  }
  DeviceShape shape{32, count};
  int shared = 0;
  if (cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) == cudaSuccess) {
    shape.shared_bytes = std::max(0, shared - kOwnSharedBytes);
  }
  return std::unique_ptr<Launcher>(std::make_unique<CudaLauncher>(shape));
}

}  // namespace kpt::gpu
