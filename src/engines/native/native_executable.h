// A graph that runs as planned launches on one device.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/shared_work.h"
#include "device/execution.h"
#include "device/weights.h"
#include "engines/native/graph_plan.h"
#include "engines/native/machine.h"
#include "engines/native/native_state.h"

namespace kpt::native {

// Weights are uploaded once, into one piece of memory. A graph without symbols is planned when it is loaded, others for
// each set of sizes at its first run, sixteen of them kept. A run takes a frame (an arena, a stream, the launches at
// their addresses) that no other run uses; frames are kept for the next one. A run has ended when it returns.
//
// When the machine's memory ends, whoever asked for it, frames that nobody uses are given back. After a run that
// failed, its frame is used again only when its stream has come to rest; one that never does is kept until the process
// ends, since the device may still write there.
//
// A call of the machine's that never returns holds up whoever made it: GuardedExecutable is for machines that have
// such.
class NativeExecutable final : public Executable {
 public:
  // Fails as plan_graph() does, with kModelPreparation for a written buffer that shares memory with another weight,
  // with kInvalidArgument for weights that are missing or do not fit, and as the machine does.
  static Result<std::unique_ptr<NativeExecutable>> load(std::shared_ptr<const ir::Graph> graph, const Weights& weights,
                                                        std::shared_ptr<Machine> machine);
  NativeExecutable(const NativeExecutable&) = delete;
  NativeExecutable& operator=(const NativeExecutable&) = delete;
  ~NativeExecutable() override;

  std::string_view device() const override { return machine_.name(); }
  bool is_stateful() const override { return !written_.empty(); }
  Result<std::unique_ptr<State>> make_state() const override;
  std::vector<NodePlan> plan() const override;
  std::string describe_runs() const override;
  Status run(RunContext& context, std::span<const Tensor> inputs, std::vector<Tensor>& outputs, Event* event) override;
  // A run but for its last step: what the model wrote counts when the state has advanced (NativeState::advance()).
  Status execute(RunContext& context, std::span<const Tensor> inputs, std::vector<Tensor>& outputs);

  static constexpr std::size_t kMostShapes = 16;

 private:
  using Key = std::vector<std::int64_t>;  // values of the graph's symbols, in order
  struct Frame;
  struct Shape;

  NativeExecutable(std::shared_ptr<const ir::Graph> graph, std::shared_ptr<Machine> machine);
  Status upload_weights(const Weights& weights);
  Result<std::shared_ptr<Shape>> make_shape(const ir::Bindings& sizes);
  // Other shapes are found and run while one is made.
  Result<std::shared_ptr<Shape>> find_shape(std::span<const Tensor> inputs);
  std::shared_ptr<Shape> find_known(const Key& key);
  static void settle(Shape& shape);  // with mutex_ held
  void drop_oldest_shape();          // likewise
  Result<std::unique_ptr<Frame>> make_frame(const Shape& shape);
  Result<std::unique_ptr<Frame>> take_frame(Shape& shape);
  bool give_back(Shape& shape, std::unique_ptr<Frame> frame, bool failed);  // whether its stream has come to rest
  void drop_idle_frames();
  Result<NativeState*> find_state(const RunContext& context) const;  // null for a model that writes nothing
  Status run_in(const Shape& shape, Frame& frame, RunContext& context, std::span<const Tensor> inputs,
                NativeState* state, std::vector<Tensor>& outputs);
  Status upload_inputs(const Shape& shape, Frame& frame, std::span<const Tensor> inputs);
  Status launch_all(const Shape& shape, Frame& frame, RunContext& context);
  Status fetch_outputs(const Shape& shape, Frame& frame, RunContext& context, std::vector<Tensor>& outputs);
  Status node_failure(std::size_t node, const Status& status) const;

  std::shared_ptr<const ir::Graph> graph_;
  std::shared_ptr<Machine> kept_machine_;
  Machine& machine_;
  std::shared_ptr<Buffer> weights_;
  std::vector<std::size_t> weight_offsets_;  // by graph input
  std::vector<std::uint32_t> written_;       // buffers, as graph inputs
  mutable std::mutex mutex_;
  std::map<Key, std::shared_ptr<Shape>> shapes_;
  std::uint64_t uses_ = 0;
  SharedWork<Key, std::shared_ptr<Shape>> making_;
  std::shared_ptr<void> holder_;  // last: what it calls needs all of the above
};

}  // namespace kpt::native
