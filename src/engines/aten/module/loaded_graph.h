// A graph bound to libtorch's operators on one device, with its weights there: what every executable needs before and
// after the steps of a run, whatever memory they work on. Immutable after load().
#pragma once

#include <cstdint>
#include <memory>
#include <span>
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
  Tensor source;         // the file's memory, on the host
  at::Tensor tensor;     // on the device: the same memory on the CPU
  bool written = false;  // by the graph: lives in a State
};

struct UserInput {
  std::uint32_t slot = 0;
  bool written = false;
  bool reshaped = false;  // its description changes during a run
  std::string name;
};

// A value that callers receive, and whose memory it may be.
struct UserOutput {
  std::uint32_t slot = 0;
  std::vector<std::size_t> inputs;   // of LoadedGraph::inputs()
  std::vector<std::size_t> weights;  // of LoadedGraph::weights()
};

class LoadedGraph {
 public:
  // Throws what libtorch throws. Fails with kInvalidArgument for weights that are missing or of other types or sizes,
  // and with kUnsupported for nodes that cannot run. With `plan_memory`, results get places in an arena of the host.
  static Result<std::unique_ptr<LoadedGraph>> load(std::shared_ptr<const ir::Graph> graph, const Weights& weights,
                                                   at::Device device, bool plan_memory,
                                                   const NvidiaPolicy& policy = {});

  const ir::Graph& graph() const { return *graph_; }
  const CompiledGraph& compiled() const { return *compiled_; }
  at::Device device() const { return device_; }
  const std::vector<LoadedWeight>& weights() const { return weights_; }
  const std::vector<UserInput>& inputs() const { return inputs_; }
  const std::vector<UserOutput>& outputs() const { return outputs_; }
  bool is_stateful() const { return stateful_; }

  // A frame that holds the weights.
  std::unique_ptr<Frame> make_frame() const;
  // A number that the graph takes as one and not as a tensor goes into its slot; false for tensors.
  bool bind_number(std::size_t input, const Tensor& given, Frame& frame) const;
  // Throws CallFailure when the model needs a state and there is none.
  void bind_state(State* state, Frame& frame) const;
  // Copies what the graph says it writes: into the frame's inputs and the state's buffers.
  void store_mutations(std::span<const Tensor> inputs, Frame& frame) const;
  // Output `index` as a tensor; undefined for None. `owned`: its memory is the run's alone and not that of an input, a
  // weight or a state.
  at::Tensor take_output(std::size_t index, const Frame& frame, const State* state, bool* owned) const;
  // What is not a shared weight must not live on in a frame: states may be large and belong to sessions.
  void release(Frame& frame) const;

  // What a run threw, as the Status of the failed node. Call it inside a catch block.
  Status current_failure(std::uint32_t position) const;

 private:
  LoadedGraph(std::shared_ptr<const ir::Graph> graph, at::Device device) : graph_(std::move(graph)), device_(device) {}
  Status load_weights(const Weights& weights);
  Status prepare_nodes();
  void find_inputs();
  void find_outputs();
  Status describe_failure(const std::exception& error, StatusCode code, std::uint32_t position) const;
  bool is_shared(const at::Tensor& tensor, const UserOutput& output, const Frame& frame, const State* state) const;

  std::shared_ptr<const ir::Graph> graph_;
  at::Device device_;
  std::unique_ptr<CompiledGraph> compiled_;
  std::vector<LoadedWeight> weights_;
  std::vector<UserInput> inputs_;
  std::vector<UserOutput> outputs_;
  bool stateful_ = false;
};

}  // namespace kpt::aten
