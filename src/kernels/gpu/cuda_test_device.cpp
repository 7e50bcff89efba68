#include <cuda_runtime_api.h>

#include "kernels/gpu/cuda_launcher.h"
#include "kernels/gpu/cuda_wave64_launcher.h"
#include "kernels/gpu/gpu_testing.h"

namespace kpt::gpu::testing {
namespace {

// Managed memory: the tests read and write what kernels do.
class CudaDevice : public TestDevice {
 public:
  explicit CudaDevice(std::unique_ptr<Launcher> launcher) : launcher_(std::move(launcher)) {}
  Launcher& launcher() override { return *launcher_; }
  void* allocate(std::size_t bytes) override {
    void* memory = nullptr;
    return cudaMallocManaged(&memory, bytes == 0 ? 1 : bytes) == cudaSuccess ? memory : nullptr;
  }
  void release(void* memory) override { cudaFree(memory); }
  Status synchronize() override {
    const cudaError_t error = cudaDeviceSynchronize();
    if (error == cudaSuccess) return {};
    return {StatusCode::kKernel, cudaGetErrorString(error), Vendor::kNvidia};
  }

 private:
  std::unique_ptr<Launcher> launcher_;
};

}  // namespace

std::vector<std::string> device_names() { return {"cuda", "cuda_wave64"}; }

std::unique_ptr<TestDevice> open_device(const std::string& name, std::uint64_t /*seed*/, std::string* reason) {
  auto launcher = name == "cuda_wave64" ? make_cuda_wave64_launcher(0) : make_cuda_launcher(0);
  if (!launcher.ok()) {
    *reason = launcher.status().message();
    return nullptr;
  }
  return std::make_unique<CudaDevice>(std::move(*launcher));
}

}  // namespace kpt::gpu::testing
