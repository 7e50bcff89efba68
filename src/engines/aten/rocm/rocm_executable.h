// A graph with its weights on one GPU, through libtorch's interface that knows no vendor: libtorch's ROCm build calls
// AMD GPUs CUDA devices, and so this runs on NVIDIA's too, where tests use it.
//
// Every run is launched node by node: nothing is captured. Runs queue their work on one stream in the order in which
// they come; threads wait for their own results only.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <c10/core/Stream.h>

#include "device/execution.h"
#include "engines/aten/module/device_run.h"
#include "engines/aten/module/loaded_graph.h"
#include "kernels/gpu/launch.h"

namespace kpt::aten {

class RocmExecutable final : public Executable {
 public:
  // `margin_bytes`: what a run leaves of the device's memory by estimate, or is refused. Throws what libtorch throws.
  // `launcher` starts kernels of ours; null where the graph's nodes need none. Fails as LoadedGraph::load(), and with
  // kUnsupported where libtorch does not tell on which stream of HIP's they would run.
  static Result<std::unique_ptr<Executable>> load(c10::DeviceIndex index, std::shared_ptr<const ir::Graph> graph,
                                                  const Weights& weights, std::uint64_t margin_bytes,
                                                  std::shared_ptr<gpu::Launcher> launcher);
  RocmExecutable(const RocmExecutable&) = delete;
  RocmExecutable& operator=(const RocmExecutable&) = delete;
  ~RocmExecutable() override;

  std::string_view device() const override { return device_; }
  bool is_stateful() const override { return loaded_->is_stateful(); }
  Result<std::unique_ptr<State>> make_state() const override;
  std::vector<NodePlan> plan() const override { return loaded_->compiled().describe(); }
  std::string describe_runs() const override { return "node by node through libtorch's ROCm library"; }
  Status run(RunContext& context, std::span<const Tensor> inputs, std::vector<Tensor>& outputs, Event* event) override;

 private:
  RocmExecutable(std::unique_ptr<LoadedGraph> loaded, const c10::Stream& stream, std::uint64_t margin_bytes,
                 std::shared_ptr<gpu::Launcher> launcher, void* queue);
  // Whether a run fits, by estimate. Throws NotAdmitted.
  void admit(std::span<const Tensor> inputs);
  void run_nodes(RunContext& context, std::span<const Tensor> inputs, std::vector<Tensor>& outputs,
                 std::uint32_t& position);

  std::string device_;
  std::unique_ptr<LoadedGraph> loaded_;
  c10::Stream stream_;
  std::shared_ptr<gpu::Launcher> launcher_;
  void* queue_;  // the stream as HIP knows it, for the launcher
  std::uint64_t margin_bytes_;

  std::mutex mutex_;  // held while work is queued; guards what follows
  RunEstimates estimates_;
  std::unique_ptr<Frame> frame_;
};

}  // namespace kpt::aten
