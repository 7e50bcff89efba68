// AMD GPUs as devices "amd:0", "amd:1", …, through libtorch's ROCm build. It never ran on an AMD GPU; whole models run
// through the same module on NVIDIA's (tests/fakes, `ctest -R models.rocm_zoo`).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backends/amd/kernel_store.h"
#include "device/backend_context.h"
#include "device/execution.h"
#include "device/hardware.h"
#include "engines/aten/module_abi.h"
#include "kpt/status.h"

namespace kpt {

// Where the parts come from: what tests replace.
struct AmdTorchParts {
  std::function<AmdReport(const DetectionContext&)> detect;     // empty: detect_amd()
  std::function<Result<const aten::CudaModuleTable*>()> table;  // empty: of libtorch's ROCm build
  std::string hip_library;                                      // empty: the one that libtorch has loaded
  KernelSource kernels;                                         // empty: KernelStore
  // What happens while work runs; empty: libtorch's profiler.
  std::function<Result<std::vector<Activity>>(const std::function<Status()>& work)> record = {};
};

// Opens nothing yet. Targets are there without any GPU: "amd:gfx942" and the other rows of architecture.h. Operators of
// ours that kRocmOwnTargets has run by our kernels where there is a compiler for them; the rest is libtorch's.
std::unique_ptr<Backend> make_amd_torch_backend(const BackendContext& context, AmdTorchParts parts = {});

}  // namespace kpt
