// A graph with its weights on one NVIDIA GPU.
//
// The second run of a shape is captured into a CUDA graph, later ones replay it: one launch instead of one per node.
// What cannot be captured (a node that waits for the device, sizes that depend on data) runs node by node, and
// describe_runs() says why. Captured graphs share one memory pool with a bound on its bytes and one on their number;
// memory that runs out takes them first, then those of other models that are not at work.
//
// Runs queue their work on one stream in the order in which they come, so that captured memory has one user at a time;
// threads wait for their own results only.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAStream.h>

#include "device/execution.h"
#include "engines/aten/module/device_run.h"
#include "engines/aten/module/kept_memory.h"
#include "engines/aten/module/loaded_graph.h"
#include "engines/aten/module_abi.h"

namespace kpt::aten {

class CudaExecutable final : public Executable, public MemoryKeeper {
 public:
  // Throws what libtorch throws. Fails as LoadedGraph::load().
  static Result<std::unique_ptr<Executable>> load(c10::DeviceIndex index, std::shared_ptr<const ir::Graph> graph,
                                                  const Weights& weights, CudaMemoryLimits limits,
                                                  const NvidiaPolicy& policy);
  ~CudaExecutable() override;
  CudaExecutable(const CudaExecutable&) = delete;
  CudaExecutable& operator=(const CudaExecutable&) = delete;
  // What libtorch's allocator keeps for later goes back to the driver; never while something is captured. Throws what
  // libtorch throws.
  static void empty_cache();

  std::string_view device() const override { return device_; }
  bool is_stateful() const override { return loaded_->is_stateful(); }
  Result<std::unique_ptr<State>> make_state() const override;
  std::vector<NodePlan> plan() const override { return loaded_->compiled().describe(); }
  std::string describe_runs() const override;
  Status run(RunContext& context, std::span<const Tensor> inputs, std::vector<Tensor>& outputs, Event* event) override;

  // Of captured runs, for other models. A shape that lost its graph runs node by node for a while: captured at once, it
  // would take back what another needs.
  std::uint64_t kept_bytes() const noexcept override { return captured_bytes_; }
  std::uint64_t give_up() noexcept override;

 private:
  // What distinguishes one recorded run from another: the inputs' sizes, the state's addresses, TF32.
  using Key = std::vector<std::int64_t>;

  // A shape that was run; with a graph once it was captured.
  struct Shape {
    Key key;
    std::unique_ptr<at::cuda::CUDAGraph> graph;
    std::vector<at::Tensor> inputs;   // written before each replay; undefined for none
    std::vector<at::Tensor> outputs;  // valid after each replay
    std::vector<at::Tensor> state;    // so that their addresses stay theirs
    bool refused = false;             // capturing failed: not tried again
    bool ran_out = false;             // of memory, when it was captured last: tried again later
    int runs_until_retry = 0;
  };

  CudaExecutable(std::unique_ptr<LoadedGraph> loaded, c10::cuda::CUDAStream stream, CudaMemoryLimits limits,
                 const NvidiaPolicy& policy);

  Key make_key(std::span<const Tensor> inputs, const RunContext& context) const;
  bool takes_tf32(const RunContext& context) const { return policy_.tf32 && !context.as_written; }
  // The shape of that key, most recently used from now on. Null when it is seen for the first time.
  Shape* find_shape(const Key& key);
  void remember_shape(Key key);
  void forget_shapes();
  void drop_graphs();  // likewise, but remembers the shapes
  bool has_captured() const;
  // Counts what they keep: their pool, which gives memory back only as a whole, and their inputs.
  void count_captured();
  // Whether the shape, captured last, may stay: what outgrows the bound is given up as a whole.
  bool fits(const Shape& shape);
  void run_once(RunContext& context, std::span<const Tensor> inputs, std::vector<Tensor>& outputs,
                std::uint32_t& position);
  // Whether a run node by node fits, by estimate; what is ours to give up is given up first. Throws NotAdmitted.
  void admit(std::span<const Tensor> inputs);
  // `regained`: what would be free besides.
  Status check_memory(std::uint64_t needed, std::uint64_t regained = 0) const;
  void run_nodes(RunContext& context, std::span<const Tensor> inputs, std::vector<Tensor>& outputs,
                 std::uint32_t& position);
  // False when the device refuses or the shape does not fit; the reason is kept. The shape may be gone then.
  bool capture(Shape& shape, RunContext& context, std::span<const Tensor> inputs);
  bool try_capture(Shape& shape, RunContext& context, std::span<const Tensor> inputs);
  void replay(Shape& shape, const RunContext& context, std::span<const Tensor> inputs, std::vector<Tensor>& outputs);
  // A run with the shape's own inputs; results are in the frame.
  std::unique_ptr<Frame> run_in_place(const Shape& shape, State* state) const;
  void record(Shape& shape, State* state, std::span<const Tensor> inputs);
  bool measures() const { return policy_.tune_products || policy_.tune_convolutions; }
  // Algorithms belong to addresses, and cuDNN's to a thread: they are measured once more where both are those of the
  // captured run. Not where that would write a state twice.
  bool measures_before_capture() const { return measures() && !loaded_->is_stateful(); }

  std::string device_;
  std::unique_ptr<LoadedGraph> loaded_;
  c10::cuda::CUDAStream stream_;
  at::cuda::MempoolId_t pool_;
  std::string never_;  // why no shape is captured; empty when one may be
  CudaMemoryLimits limits_;
  NvidiaPolicy policy_;
  std::string run_name_;  // of ranges for profilers; so are those of nodes, empty without such ranges
  std::vector<std::string> node_names_;

  mutable std::mutex mutex_;                       // held while work is queued; guards what follows
  std::list<Shape> shapes_;                        // most recently used first
  std::atomic<std::uint64_t> captured_bytes_ = 0;  // changed under the lock, read by any thread
  std::uint64_t captured_idle_bytes_ = 0;          // of them: free, but for captured runs only
  RunEstimates estimates_;
  int give_ups_ = 0;  // because shapes together outgrew the bound
  std::unique_ptr<Frame> frame_;
  std::string refusal_;  // of the last shape that could not be captured
};

}  // namespace kpt::aten
