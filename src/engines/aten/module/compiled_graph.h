// A graph bound to libtorch's operators: a list of steps, each with its arguments prepared. Immutable after compile();
// everything a run changes lives in a Frame.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/dispatch/Dispatcher.h>

#include "device/execution.h"
#include "device/nvidia_policy.h"
#include "engines/aten/module/aliases.h"
#include "engines/aten/module/arguments.h"
#include "engines/aten/module/number_nodes.h"
#include "engines/aten/module/own_nodes.h"
#include "ir/graph.h"

namespace kpt::aten {

struct Frame;
struct Step;
class CompiledGraph;

using TypedFunction = void (*)(const Step& step, Frame& frame);

// Where a result goes: slots, -1 for one that nobody wants.
struct ResultTarget {
  bool is_list = false;
  std::vector<std::int64_t> slots;
};

struct Step {
  enum class Kind : std::uint8_t { kBoxed, kTyped, kReplaced, kNumber, kOwn, kCond, kWhile };
  Kind kind = Kind::kBoxed;
  std::uint32_t node = 0;
  std::optional<c10::OperatorHandle> op;
  std::optional<c10::OperatorHandle> out_op;  // writes into a given tensor; used when the result is planned
  std::vector<ArgumentSource> arguments;
  std::vector<ResultTarget> results;
  TypedFunction typed = nullptr;  // of kTyped, for a result that is planned, and of kReplaced
  NumberFunction number = nullptr;
  std::unique_ptr<OwnStep> own;        // of kOwn
  std::int32_t planned = -1;           // the frame's tensor that receives the result; -1: libtorch allocates it
  std::uint32_t scratch = 0;           // of typed steps: the frame's place for a cached view
  std::vector<std::uint32_t> release;  // slots whose last use this is
  std::vector<std::unique_ptr<CompiledGraph>> bodies;  // of kCond and kWhile

  // The slot of the first result.
  std::uint32_t result() const { return static_cast<std::uint32_t>(results[0].slots[0]); }
};

// A result whose memory can be planned before the run: the step's number in time and the sizes in terms of symbols.
struct PlannedResult {
  std::uint32_t value = 0;
  std::uint32_t first = 0;  // step that makes it
  std::uint32_t last = 0;   // last step that touches its memory
  bool contiguous = false;  // whatever strides were recorded
};

class CompiledGraph {
 public:
  // Why each node cannot run, in the order of the nodes; empty reasons where it can.
  static std::vector<Support> check(const ir::Graph& graph, at::Device device);
  // Fails with kUnsupported when a node cannot run. `graph` must outlive the result. With `plan_memory`, results get
  // places in an arena where their sizes are known before the run.
  static Result<std::unique_ptr<CompiledGraph>> compile(const ir::Graph& graph, at::Device device, bool plan_memory,
                                                        const NvidiaPolicy& policy = {});

  // Lets own nodes prepare. `constants`: by slot, the weights that no run changes; null elsewhere. Fails with
  // kUnsupported, naming the node. Before the first run, once.
  Status prepare(std::span<const at::Tensor* const> constants);

  const ir::Graph& graph() const { return *graph_; }
  at::Device device() const { return device_; }
  const std::vector<Step>& steps() const { return steps_; }
  const std::vector<PlannedResult>& planned() const { return planned_; }
  std::uint32_t list_count() const { return list_count_; }
  std::uint32_t scratch_count() const { return scratch_count_; }
  std::uint32_t max_arguments() const { return max_arguments_; }
  const AliasSets& aliases() const { return aliases_; }
  // Slots that hold something after the last step which must not stay for the next run.
  const std::vector<std::uint32_t>& final_releases() const { return final_releases_; }
  std::vector<NodePlan> describe() const;

 private:
  CompiledGraph(const ir::Graph& graph, at::Device device, const NvidiaPolicy& policy)
      : graph_(&graph), device_(device), policy_(policy), aliases_(graph.values.size()) {}
  Status bind();
  void plan_releases();
  void plan_memory();
  void plan_own_results(Step& step, const std::vector<std::uint32_t>& set_last, const std::vector<bool>& set_kept);

  const ir::Graph* graph_;
  at::Device device_;
  NvidiaPolicy policy_;
  AliasSets aliases_;
  std::vector<Step> steps_;
  std::vector<PlannedResult> planned_;
  std::vector<std::uint32_t> final_releases_;
  std::uint32_t list_count_ = 0;
  std::uint32_t scratch_count_ = 0;
  std::uint32_t max_arguments_ = 0;
};

// One node; the step's `release`, `planned` and typed form are decided later.
Result<Step> bind_node(const ir::Graph& graph, std::uint32_t node, BindingContext& context);

}  // namespace kpt::aten
