// Starts our kernels on an AMD GPU: the HIP mapping's launcher (kernels/gpu/launch.h).
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "backends/amd/hip_runtime.h"
#include "kernels/gpu/launch.h"

namespace kpt {

class HipLauncher : public gpu::Launcher {
 public:
  // Loads code objects for the device's own target; a kernel is looked for in all of them. `compute_units` comes from
  // detection, which asks the kernel driver. Without `matrix_cores`, plans for its shape() leave them alone. Fails as
  // HipDevice::load_module() does, and with kAlreadyExists when two code objects have a kernel of the same name.
  static Result<std::unique_ptr<HipLauncher>> make(const HipDevice& device, int compute_units,
                                                   std::span<const std::string> code_objects, bool matrix_cores = true);

  gpu::DeviceShape shape() const override { return shape_; }
  // `stream`: HipStream::get() of the same device, or null for its default stream. Returns when the kernel is queued.
  // Several threads may use one launcher with streams of their own.
  Status launch(const gpu::Launch& launch, void* stream) override;

 private:
  HipLauncher(HipDevice device, gpu::DeviceShape shape) : device_(std::move(device)), shape_(shape) {}

  HipDevice device_;
  gpu::DeviceShape shape_;
  std::mutex mutex_;  // of the modules' tables of functions
  std::vector<HipModule> modules_;
};

}  // namespace kpt
