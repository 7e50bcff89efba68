// A graph as launches of our own kernels: which kernels, in which order, on which parts of one arena. No device is
// needed, and none is named: what a plan must know of one stands in Traits.
//
// Sizes are numbers here: a graph with symbols has one plan for each set of their values. Addresses are not: steps give
// their launches when the blocks have places (bind_plan()).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "device/execution.h"
#include "engines/native/view.h"
#include "ir/graph.h"
#include "kernels/gpu/launch.h"
#include "kpt/status.h"
#include "passes/memory_facts.h"

namespace kpt::native {

// What a plan must know of the device.
struct Traits {
  gpu::DeviceShape shape;
};

inline constexpr std::size_t kBlockAlignment = 256;

// Memory of one tensor and its views.
struct Block {
  std::size_t bytes = 0;
  std::optional<std::uint32_t> weight;  // index in the graph's inputs: a weight, which lies outside the arena
  std::size_t offset = 0;               // in the arena
};

// Where blocks are, for one run.
class Addresses {
 public:
  explicit Addresses(std::span<std::byte* const> blocks) : blocks_(blocks) {}
  void* of(const View& view) const {
    return blocks_[view.block] + view.offset * static_cast<std::int64_t>(element_bytes(view.dtype));
  }

 private:
  std::span<std::byte* const> blocks_;
};

using Emit = std::function<Result<gpu::Plan>(const Addresses&, const gpu::DeviceShape&)>;

struct Step {
  std::size_t node = 0;  // index in the graph's nodes; their number for what follows the last
  Emit emit;
};

struct PlannedInput {
  std::size_t position = 0;  // among the inputs that a run is given
  View view;                 // contiguous
};

struct PlannedOutput {
  std::optional<View> view;  // contiguous; nothing: the number
  std::int64_t number = 0;
};

// A buffer that the model writes. A run works on a copy in the arena.
struct PlannedState {
  std::uint32_t input = 0;  // index in the graph's inputs
  View before;              // contiguous, as `after`
  View after;               // what it holds when the run has ended
};

struct GraphPlan {
  std::vector<Block> blocks;
  std::vector<Step> steps;
  std::vector<PlannedInput> inputs;
  std::vector<PlannedOutput> outputs;
  std::vector<PlannedState> states;
  // One int32 for each node that looks things up by index, zero before a run; afterwards not zero where an index was
  // outside its axis. In `flags`, which lie in block `flag_block`.
  std::vector<std::size_t> flags;  // nodes
  std::uint32_t flag_block = 0;
  std::size_t arena_bytes = 0;
  Status sizes;  // kInvalidArgument where the model asserts that its sizes are not these: nothing may run then
  std::vector<std::string> families;  // of kernels, sorted: what must be loaded to run it
};

// Fails with kUnsupported and the nodes that no kernel covers, by operator and reason with the first of each and how
// many there are; with kModelPreparation for what is no node (inputs that the model writes), and with kInvalidArgument
// for a symbol without a value.
Result<GraphPlan> plan_graph(const ir::Graph& graph, const ir::Bindings& sizes, const Traits& traits);

// One answer for each node. Graphs with symbols are tried with small sizes within their ranges.
std::vector<Support> check_nodes(const ir::Graph& graph, const Traits& traits);
// All refusals in one message, as list_unsupported() has it; ok when there is none.
Status list_refused(const ir::Graph& graph, const std::vector<Support>& answers);
// That of the graph as a whole which no node shows: written inputs and parameters, written buffers with strides of
// their own, inputs that are no tensors, sizes that no input has. `facts`: of the graph, without weights.
Status check_graph(const ir::Graph& graph, const MemoryFacts& facts);

// Buffers that the model writes, in place or by outputs of the graph: indices in the graph's inputs.
std::vector<std::uint32_t> written_buffers(const ir::Graph& graph, const MemoryFacts& facts);

// Targets of nodes that have a rule, sorted.
std::vector<std::string_view> covered_targets();

// A launch at its addresses, with the node that it belongs to.
struct BoundLaunch {
  std::size_t node = 0;
  gpu::Launch launch;
  std::string_view family;
};

// `blocks`: the address of each block, which 16 divides.
Result<std::vector<BoundLaunch>> bind_plan(const GraphPlan& plan, std::span<std::byte* const> blocks,
                                           const gpu::DeviceShape& shape);

// What a graph launches, before there is a device.
struct NeededKernels {
  std::vector<NodePlan> nodes;        // for the first of the tried sizes
  std::vector<std::string> kernels;   // sorted
  std::vector<std::string> families;  // of these, sorted
  // Of a graph without symbols: the arena of a run, with inputs and outputs in it, and the weights beside it.
  std::optional<std::size_t> arena_bytes;
  std::optional<std::size_t> weight_bytes;
};

// A graph with symbols is planned for several sets of sizes within their ranges. Rules choose kernels of one family by
// size, so families are complete and kernels those of the tried sizes. Fails as plan_graph() does.
Result<NeededKernels> find_needed_kernels(const ir::Graph& graph, const Traits& traits);

}  // namespace kpt::native
