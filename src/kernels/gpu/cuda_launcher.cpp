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
    const cudaError_t error = cudaLaunchKernel(found->function, dim3(launch.blocks), dim3(launch.threads), args, 0,
                                               static_cast<cudaStream_t>(stream));
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
  return std::unique_ptr<Launcher>(std::make_unique<CudaLauncher>(DeviceShape{32, count}));
}

}  // namespace kpt::gpu
