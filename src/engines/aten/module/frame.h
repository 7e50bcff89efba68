// What one run of a CompiledGraph changes. Frames are kept and used again, so that a steady run allocates nothing here.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>

#include "device/execution.h"
#include "engines/aten/module/compiled_graph.h"
#include "engines/aten/module/own_memory.h"
#include "kpt/tensor.h"

namespace kpt::aten {

// Sizes and places of the planned results for one set of symbol values.
struct MemoryPlan {
  struct Place {
    bool planned = false;  // false: sizes could not be known, libtorch allocates
    std::size_t offset = 0;
    std::vector<std::int64_t> sizes;
    std::vector<std::int64_t> strides;
    at::ScalarType dtype = at::kFloat;
  };
  std::vector<std::int64_t> key;  // the values of the graph's symbols
  std::vector<Place> places;      // one per CompiledGraph::planned()
  std::size_t arena_bytes = 0;
};

// An input as libtorch sees it: a bare description, kept as long as the caller passes the same address and shape. It
// owns nothing; the caller's tensors live through the run, and what leaves the run is never a view of it.
struct BoundInput {
  const void* address = nullptr;
  at::Tensor tensor;
};

struct Frame {
  explicit Frame(const CompiledGraph& graph);

  at::Device device;               // of all tensors
  std::vector<c10::IValue> slots;  // one per value
  std::vector<c10::IValue> lists;  // one per list argument
  torch::jit::Stack stack;
  std::vector<at::Tensor> planned;  // one per planned result; undefined where libtorch allocates
  std::vector<at::Tensor> views;    // of typed steps
  std::vector<BoundInput> inputs;
  std::vector<std::unique_ptr<Frame>> bodies;  // of sub-graphs, made when first entered
  std::shared_ptr<const MemoryPlan> plan;
  std::unique_ptr<void, FreeDeleter> arena;
  std::size_t arena_bytes = 0;
  Workspace workspace;  // of own nodes
  Workers workers;      // likewise
};

// Makes `frame` follow `plan`: the arena grows if it must, and the planned tensors point into it.
void apply_plan(std::shared_ptr<const MemoryPlan> plan, Frame& frame);

// What may end a run between two steps, and who watches it; null pointers mean nothing and nobody.
struct RunLimits {
  const std::chrono::steady_clock::time_point* deadline = nullptr;
  const std::atomic<bool>* cancelled = nullptr;
  NodeObserver* observer = nullptr;  // not for the nodes of sub-graphs
};

// Thrown between steps when a limit is reached.
class RunStopped : public std::exception {
 public:
  explicit RunStopped(StatusCode code) : code_(code) {}
  StatusCode code() const noexcept { return code_; }

 private:
  StatusCode code_;
};

// Runs all steps. Inputs and weights are in their slots before, results in theirs afterwards. `position` follows the
// step at work, so that a failure can name its node.
void run_steps(const CompiledGraph& graph, Frame& frame, const RunLimits& limits, std::uint32_t& position);

// The tensor in a step's position, without touching its reference count.
inline const at::Tensor& tensor_at(const ArgumentSource& source, const Frame& frame) {
  return source.is_constant() ? source.constant.toTensor() : frame.slots[source.slot].toTensor();
}

}  // namespace kpt::aten
