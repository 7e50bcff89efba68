// Kernels of ours for models that libtorch's ROCm build runs: compiled for the GPU, started on libtorch's streams.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "backends/amd/hip_runtime.h"
#include "backends/amd/kernel_store.h"
#include "device/backend_context.h"
#include "device/hardware.h"
#include "ir/graph.h"
#include "kernels/gpu/launch.h"
#include "kpt/status.h"

namespace kpt {

// Thread safe.
class TorchKernels {
 public:
  // `library` and `kernels` are what tests replace; empty: the libamdhip64 that this process has loaded, and
  // KernelStore.
  TorchKernels(const BackendContext& context, std::string library, KernelSource kernels);

  // Why operators of ours cannot run on GPUs of a target; empty: they can. libtorch must be open: its HIP runtime is
  // the one that kernels are started by, because a stream of one copy of the library means nothing to another. Looks
  // for a compiler once for each target.
  std::string find_obstacle(std::string_view gfx_target);

  // For all families that nodes of the graph may launch on the GPU, those for its matrix cores with them unless
  // amd.matrix_cores is off; null where it has no nodes of ours. Compiles what no cache has. Fails as
  // KernelStore::get() and HipLauncher::make() do.
  Result<std::shared_ptr<gpu::Launcher>> make_launcher(const AmdGpu& gpu, const ir::Graph& graph);

 private:
  Result<std::shared_ptr<const HipRuntime>> open_runtime();

  std::string library_;
  std::unique_ptr<KernelStore> store_;  // null where a test gives the kernels
  KernelSource kernels_;
  bool matrix_cores_;
  std::mutex mutex_;
  std::shared_ptr<const HipRuntime> runtime_;  // null until it is needed
};

// The file of the libamdhip64 that this process has loaded; empty when it has none.
std::string find_loaded_hip();

}  // namespace kpt
