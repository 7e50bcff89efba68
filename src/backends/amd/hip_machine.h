// An AMD GPU for planned launches: memory, streams and kernels of one device through HIP.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "backends/amd/hip_launcher.h"
#include "backends/amd/hip_runtime.h"
#include "backends/amd/kernel_store.h"
#include "engines/native/machine.h"

namespace kpt {

// What planned launches may use of a target: its wave and its matrix cores. `compute_units` 0: unknown.
native::Traits native_traits(const AmdArchitecture& architecture, int compute_units);

class HipMachine final : public native::Machine {
 public:
  HipMachine(std::string name, HipDevice device, int compute_units, KernelSource kernels);

  std::string_view name() const override { return name_; }
  Vendor vendor() const override { return Vendor::kAmd; }
  const native::Traits& traits() const override { return traits_; }
  // Out of memory says how much was needed and how much is free.
  Result<std::shared_ptr<Buffer>> allocate(std::size_t bytes) override;
  Result<std::unique_ptr<native::Stream>> make_stream() override;
  Result<gpu::Launcher*> load_family(std::string_view family) override;

 private:
  std::string name_;
  HipDevice device_;
  native::Traits traits_;
  KernelSource kernels_;
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<HipLauncher>, std::less<>> launchers_;  // by family
};

}  // namespace kpt
