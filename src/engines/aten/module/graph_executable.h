// A graph with its weights, ready to run on the CPU by many threads at once.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "device/execution.h"
#include "engines/aten/module/loaded_graph.h"

namespace kpt::aten {

class GraphExecutable final : public Executable {
 public:
  // Throws what libtorch throws. Fails with kInvalidArgument for weights that are missing or of other types or sizes,
  // and with kUnsupported for nodes that cannot run.
  static Result<std::unique_ptr<Executable>> load(std::shared_ptr<const ir::Graph> graph, const Weights& weights);

  std::string_view device() const override { return "cpu"; }
  bool is_stateful() const override { return loaded_->is_stateful(); }
  Result<std::unique_ptr<State>> make_state() const override;
  std::vector<NodePlan> plan() const override { return compiled().describe(); }
  Status run(RunContext& context, std::span<const Tensor> inputs, std::vector<Tensor>& outputs, Event* event) override;

 private:
  explicit GraphExecutable(std::unique_ptr<LoadedGraph> loaded) : loaded_(std::move(loaded)) {}
  const CompiledGraph& compiled() const { return loaded_->compiled(); }
  const ir::Graph& graph() const { return loaded_->graph(); }
  std::unique_ptr<Frame> take_frame(const std::vector<std::int64_t>& key);
  void return_frame(std::unique_ptr<Frame> frame) noexcept;
  std::shared_ptr<const MemoryPlan> get_plan(const std::vector<std::int64_t>& key);
  std::shared_ptr<const MemoryPlan> make_plan(const std::vector<std::int64_t>& key) const;
  void find_symbols(std::span<const Tensor> inputs, std::vector<std::int64_t>& values) const;
  void bind_inputs(std::span<const Tensor> inputs, Frame& frame) const;
  void run_frame(RunContext& context, std::span<const Tensor> inputs, std::vector<Tensor>& outputs,
                 std::uint32_t& position);
  void take_outputs(Frame& frame, const State* state, std::vector<Tensor>& outputs) const;

  std::unique_ptr<LoadedGraph> loaded_;

  std::mutex mutex_;  // guards what follows
  std::vector<std::unique_ptr<Frame>> frames_;
  std::vector<std::shared_ptr<const MemoryPlan>> plans_;  // most recently used first
};

}  // namespace kpt::aten
