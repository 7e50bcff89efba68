// A graph with its weights, ready to run on the CPU by many threads at once.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "device/execution.h"
#include "engines/aten/module/compiled_graph.h"
#include "engines/aten/module/frame.h"

namespace kpt::aten {

// A weight as the graph takes it.
struct LoadedWeight {
  std::uint32_t slot = 0;
  std::string name;
  Tensor source;
  at::Tensor tensor;
  bool written = false;  // by the graph: lives in a State
};

class GraphExecutable final : public Executable {
 public:
  // Throws what libtorch throws. Fails with kInvalidArgument for weights that are missing or of other types or sizes,
  // and with kUnsupported for nodes that cannot run.
  static Result<std::unique_ptr<Executable>> load(std::shared_ptr<const ir::Graph> graph, const Weights& weights);

  std::string_view device() const override { return "cpu"; }
  bool is_stateful() const override { return stateful_; }
  Result<std::unique_ptr<State>> make_state() const override;
  std::vector<NodePlan> plan() const override { return compiled_->describe(); }
  Status run(RunContext& context, std::span<const Tensor> inputs, std::vector<Tensor>& outputs, Event* event) override;

 private:
  GraphExecutable() = default;
  Status load_weights(const Weights& weights);
  Status prepare_nodes();
  void find_user_inputs();
  std::unique_ptr<Frame> take_frame(const std::vector<std::int64_t>& key);
  void return_frame(std::unique_ptr<Frame> frame) noexcept;
  std::shared_ptr<const MemoryPlan> get_plan(const std::vector<std::int64_t>& key);
  std::shared_ptr<const MemoryPlan> make_plan(const std::vector<std::int64_t>& key) const;
  void find_symbols(std::span<const Tensor> inputs, std::vector<std::int64_t>& values) const;
  void find_outputs();
  void bind_inputs(std::span<const Tensor> inputs, Frame& frame) const;
  void bind_state(State* state, Frame& frame) const;
  void store_mutations(std::span<const Tensor> inputs, Frame& frame) const;
  void run_frame(RunContext& context, std::span<const Tensor> inputs, std::vector<Tensor>& outputs,
                 std::uint32_t& position);
  bool shares_with_caller(const at::Tensor& tensor, std::size_t output, const Frame& frame, const State* state) const;
  void take_outputs(Frame& frame, const State* state, std::vector<Tensor>& outputs) const;

  struct UserInput {
    std::uint32_t slot = 0;
    bool written = false;
    bool reshaped = false;  // its description changes during a run
    std::string name;
  };

  // A value that callers receive, and whose memory it may be.
  struct UserOutput {
    std::uint32_t slot = 0;
    std::vector<std::size_t> inputs;   // of user_inputs_
    std::vector<std::size_t> weights;  // of weights_
  };

  std::shared_ptr<const ir::Graph> graph_;
  std::unique_ptr<CompiledGraph> compiled_;
  std::vector<LoadedWeight> weights_;
  std::vector<UserInput> user_inputs_;
  std::vector<UserOutput> user_outputs_;
  bool stateful_ = false;

  std::mutex mutex_;  // guards what follows
  std::vector<std::unique_ptr<Frame>> frames_;
  std::vector<std::shared_ptr<const MemoryPlan>> plans_;  // most recently used first
};

}  // namespace kpt::aten
