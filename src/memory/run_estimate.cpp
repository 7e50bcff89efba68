#include "memory/run_estimate.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "memory/offset_planner.h"

namespace kpt {
namespace {

// What allocators of devices round to.
constexpr std::size_t kAlignment = 512;
// A result beyond this is a lie of the file: the engine says which when it allocates.
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 44U;

std::optional<std::size_t> count_bytes(const ir::TensorType& type, const ir::Bindings& sizes) {
  if (type.layout != ir::Layout::kStrided) return std::nullopt;
  std::uint64_t bytes = element_bytes(type.dtype);
  for (const ir::Expr& dim : type.dims) {
    const auto size = dim.evaluate(sizes);
    if (!size.ok() || *size < 0 || __builtin_mul_overflow(bytes, static_cast<std::uint64_t>(*size), &bytes)) {
      return std::nullopt;
    }
  }
  return bytes <= kMostBytes ? std::optional<std::size_t>(bytes) : std::nullopt;
}

// Memory that several values may share.
struct Shared {
  bool made = false;     // by a node
  bool outside = false;  // an input's or a weight's
  std::optional<std::size_t> bytes;
  std::uint32_t first = 0;
  std::uint32_t last = 0;
};

class Memory {
 public:
  Memory(const ir::Graph& graph, const ir::Bindings& sizes, std::span<const std::uint32_t> roots)
      : graph_(graph), sizes_(sizes), roots_(roots), shared_(graph.values.size()) {}

  void mark_outside(ir::ValueId id) {
    if (id != ir::kNoValue) of(id).outside = true;
  }
  void use(ir::ValueId id, std::uint32_t step) { of(id).last = std::max(of(id).last, step); }
  // The first of those that share it decides how large it is: the others are views, or follow in its place.
  void make(ir::ValueId id, std::uint32_t step) {
    if (id == ir::kNoValue || graph_.at(id).kind != ir::ValueKind::kTensor) return;
    Shared& memory = of(id);
    if (!memory.made) {
      memory.made = true;
      memory.bytes = count_bytes(graph_.at(id).tensor, sizes_);
      memory.first = step;
    }
    use(id, step);
  }
  RunEstimate estimate() const {
    RunEstimate estimate;
    std::vector<Lifetime> lifetimes;
    for (const Shared& memory : shared_) {
      if (!memory.made || memory.outside) continue;
      if (memory.bytes) {
        lifetimes.push_back({*memory.bytes, memory.first, memory.last});
      } else {
        ++estimate.unknown;
      }
    }
    estimate.bytes = plan_offsets(lifetimes, kAlignment).arena_bytes;
    return estimate;
  }

 private:
  Shared& of(ir::ValueId id) { return shared_[roots_[ir::index_of(id)]]; }

  const ir::Graph& graph_;
  const ir::Bindings& sizes_;
  std::span<const std::uint32_t> roots_;
  std::vector<Shared> shared_;
};

}  // namespace

ir::Bindings bind_extents(const ir::Graph& graph, std::span<const Tensor> inputs) {
  ir::Bindings sizes;
  std::size_t next = 0;
  for (const ir::GraphInput& input : graph.inputs) {
    if (input.kind != ir::InputKind::kUser || next == inputs.size()) continue;
    const Tensor& given = inputs[next++];
    const std::vector<ir::Expr>& dims = graph.at(input.value).tensor.dims;
    if (graph.at(input.value).kind != ir::ValueKind::kTensor || dims.size() != given.dims().size()) continue;
    for (std::size_t axis = 0; axis < dims.size(); ++axis) {
      ir::bind_size(dims[axis], given.dims()[axis], sizes);
    }
  }
  return sizes;
}

RunEstimate estimate_run(const ir::Graph& graph, const ir::Bindings& sizes, std::span<const std::uint32_t> roots) {
  Memory memory(graph, sizes, roots);
  for (const ir::GraphInput& input : graph.inputs) memory.mark_outside(input.value);
  const auto end = static_cast<std::uint32_t>(graph.nodes.size());
  for (std::uint32_t step = 0; step < end; ++step) {
    const ir::Node& node = graph.nodes[step];
    for (const ir::NamedArgument& argument : node.arguments) {
      ir::for_each_value(argument.value, [&](ir::ValueId id) { memory.use(id, step); });
    }
    for (const ir::Output& output : node.outputs) {
      for (const ir::ValueId id : output.values) memory.make(id, step);
    }
  }
  for (const ir::GraphOutput& output : graph.outputs) {
    ir::for_each_value(output.value, [&](ir::ValueId id) { memory.use(id, end); });
  }
  return memory.estimate();
}

}  // namespace kpt
