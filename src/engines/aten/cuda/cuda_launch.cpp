// Nodes of this module start our kernels through the CUDA runtime, on the current device and stream.
#include <array>
#include <memory>
#include <mutex>

#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAFunctions.h>

#include "engines/aten/module/gpu_launch.h"
#include "engines/aten/module/own_nodes.h"
#include "kernels/gpu/cuda_launcher.h"

namespace kpt::aten {
namespace {

constexpr std::size_t kMostDevices = 64;

// One per device, made when first asked for. Never destroyed: the driver may be gone by then.
gpu::Launcher& current_launcher() {
  static std::mutex mutex;
  static auto* const kLaunchers = new std::array<std::unique_ptr<gpu::Launcher>, kMostDevices>();
  const int device = c10::cuda::current_device();
  OwnCall::require(device >= 0 && device < static_cast<int>(kMostDevices), "the GPU has an index beyond all bounds");
  const std::lock_guard lock(mutex);
  std::unique_ptr<gpu::Launcher>& launcher = (*kLaunchers)[static_cast<std::size_t>(device)];
  if (launcher == nullptr) {
    auto made = gpu::make_cuda_launcher(device);
    if (!made.ok()) throw OwnNodeFailure(made.status().message());
    launcher = std::move(made).value();
  }
  return *launcher;
}

}  // namespace

gpu::DeviceShape device_shape() { return current_launcher().shape(); }

void launch(const Result<gpu::Plan>& plan) {
  const Status status = gpu::run_plan(current_launcher(), plan, at::cuda::getCurrentCUDAStream().stream());
  if (!status.ok()) throw OwnNodeFailure(status.message());
}

}  // namespace kpt::aten
