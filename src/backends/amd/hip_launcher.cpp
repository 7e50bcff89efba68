#include "backends/amd/hip_launcher.h"

#include <algorithm>

#include <fmt/format.h>

#include "backends/amd/target_traits.h"

namespace kpt {

Result<std::unique_ptr<HipLauncher>> HipLauncher::make(const HipDevice& device, int compute_units,
                                                       std::span<const std::string> code_objects, bool matrix_cores) {
  if (compute_units <= 0) {
    return Status(StatusCode::kInvalidArgument,
                  fmt::format("{} compute units are none; ask detection for their number", compute_units),
                  Vendor::kAmd);
  }
  std::unique_ptr<HipLauncher> launcher(
      new HipLauncher(device, native_traits(device.architecture(), compute_units, matrix_cores).shape));
  for (const std::string& bytes : code_objects) {
    KPT_ASSIGN_OR_RETURN(HipModule module, device.load_module(std::as_bytes(std::span(bytes))));
    for (const KernelResources& kernel : module.contents().kernels) {
      if (std::ranges::any_of(launcher->modules_,
                              [&](const HipModule& other) { return other.find(kernel.name) != nullptr; })) {
        return Status(StatusCode::kAlreadyExists, fmt::format("two code objects have a kernel {}", kernel.name),
                      Vendor::kAmd);
      }
    }
    launcher->modules_.push_back(std::move(module));
  }
  return launcher;
}

Status HipLauncher::launch(const gpu::Launch& launch, void* stream) {
  for (HipModule& module : modules_) {
    if (module.find(launch.kernel) == nullptr) continue;
    void* function = nullptr;
    {
      const std::lock_guard lock(mutex_);
      KPT_ASSIGN_OR_RETURN(function, module.function(launch.kernel));
    }
    return device_.launch(module, function, launch, stream);
  }
  return {StatusCode::kNotFound,
          fmt::format("no code object for {} has a kernel {}", device_.architecture().gfx_target, launch.kernel),
          Vendor::kAmd};
}

}  // namespace kpt
