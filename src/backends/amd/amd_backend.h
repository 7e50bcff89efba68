// AMD GPUs as devices "amd:0", "amd:1", …, through planned launches of our own kernels (engines/native), or through
// libtorch's ROCm build where that is at hand.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backends/amd/device_pools.h"
#include "backends/amd/hip_api.h"
#include "backends/amd/kernel_store.h"
#include "device/backend_context.h"
#include "device/execution.h"
#include "device/hardware.h"

namespace kpt {

// Opens nothing yet. Targets are there without any GPU: "amd:gfx942" and the other rows of architecture.h. The engine
// is choose_amd_engine()'s.
std::unique_ptr<Backend> make_amd_backend(const BackendContext& context);

// Our own kernels, with another runtime and kernels from elsewhere: what tests are made of.
struct AmdBackendParts {
  std::vector<std::string> libraries = hip_library_names();
  std::function<AmdReport(const DetectionContext&)> detect;    // empty: detect_amd()
  KernelSource kernels;                                        // empty: KernelStore
  std::shared_ptr<DevicePools> pools;                          // null: those of the process
  std::string not_libtorch = "our own kernels are asked for";  // why: for who has no compiler
};
std::unique_ptr<Backend> make_amd_backend(const BackendContext& context, AmdBackendParts parts);

}  // namespace kpt
