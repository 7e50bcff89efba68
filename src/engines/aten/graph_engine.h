// Runs graphs through libtorch's dispatcher: the tree's side of what module/ does. Thread safe.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "device/execution.h"
#include "engines/aten/loader.h"

namespace kpt {

// Drivers of GPUs that are loaded on a machine.
struct GpuDrivers {
  bool nvidia = false;  // /dev/nvidiactl
  bool amd = false;     // /dev/kfd
};
GpuDrivers find_gpu_drivers(const SystemFiles& files);

class AtenEngine {
 public:
  // Opens libtorch and the module. `threads` work inside one operator, for the whole process. Fails as load_aten()
  // does. Where the drivers of the GPUs that this libtorch was built for are loaded, its GPU part too, since libtorch
  // looks for that once, before its first work. When that fails, cuda() or rocm() says why and the CPU still works.
  static Result<std::shared_ptr<const AtenEngine>> open(const TorchSearch& search, int threads,
                                                        const GpuDrivers& drivers);

  Result<std::vector<Support>> check(const ir::Graph& graph) const;
  // Instruction sets that kernels of ours leave alone in graphs that are loaded from now on (words of the option
  // cpu.isa), for the whole process.
  Status hide_instructions(const std::vector<std::string>& words) const;
  // Fails with kUnsupported for nodes that cannot run and with kInvalidArgument for weights that do not fit.
  Result<std::unique_ptr<Executable>> load(const std::shared_ptr<const ir::Graph>& graph, const Weights& weights) const;

  // Runs `work` on this thread and tells what libtorch did meanwhile, with `with_gpus` on GPUs too. Fails as `work`
  // does.
  Result<std::vector<Activity>> record(const std::function<Status()>& work, bool with_gpus) const;

  // The functions for NVIDIA GPUs, and those for AMD's, or why there are none.
  Result<const aten::CudaModuleTable*> cuda() const;
  Result<const aten::CudaModuleTable*> rocm() const;

 private:
  explicit AtenEngine(AtenModule module) : module_(std::move(module)) {}
  AtenModule module_;
  std::optional<Result<AtenCudaModule>> gpu_;  // nothing: no driver for it
};

// Opens libtorch once, when first asked, and remembers why it could not. Thread safe.
class LazyAtenEngine {
 public:
  LazyAtenEngine(TorchSearch search, int threads, GpuDrivers drivers)
      : search_(std::move(search)), threads_(threads), drivers_(drivers) {}

  Result<std::shared_ptr<const AtenEngine>> get() {
    const std::lock_guard lock(mutex_);
    if (!engine_) engine_.emplace(AtenEngine::open(search_, threads_, drivers_));
    return *engine_;
  }

 private:
  std::mutex mutex_;
  TorchSearch search_;
  int threads_;
  GpuDrivers drivers_;
  std::optional<Result<std::shared_ptr<const AtenEngine>>> engine_;
};

// A program is the graph itself: operators are bound when it is loaded.
class GraphProgram final : public Program {
 public:
  GraphProgram(std::string target, ir::Graph graph)
      : target_(std::move(target)), graph_(std::make_shared<const ir::Graph>(std::move(graph))) {}

  std::string_view target() const override { return target_; }
  const ir::Graph& graph() const override { return *graph_; }
  std::shared_ptr<const ir::Graph> shared_graph() const { return graph_; }
  Result<std::string> serialize() const override;
  // Fails with kCorruptData, and with kVersionMismatch for another version of the form or another target.
  static Result<std::unique_ptr<Program>> deserialize(std::string_view target, std::string_view bytes);

 private:
  std::string target_;
  std::shared_ptr<const ir::Graph> graph_;
};

}  // namespace kpt
