// What the rules of lower_*.cpp are written with: the arguments of a node as views and numbers, memory for its results,
// and steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engines/native/graph_plan.h"
#include "ir/graph.h"
#include "kpt/status.h"

namespace kpt::native {

// A rule refuses with this; the reason is one clause.
Status not_covered(std::string reason);

// Kernels write what the arguments say, memory is as the file says: the two must agree.
Status check_result(const View& result, DType dtype, const Dims& dims);

// A number of the graph: a constant, or a size.
struct Number {
  double real = 0;
  std::int64_t whole = 0;
  bool is_real = false;
};

class PlanBuilder {
 public:
  // What it is given must outlive it. `facts`: of the graph, without weights.
  PlanBuilder(const ir::Graph& graph, const MemoryFacts& facts, const ir::Bindings& sizes, const Traits& traits);

  const ir::Graph& graph() const { return graph_; }
  const Traits& traits() const { return traits_; }

  // Arguments. What is absent or None: the fallback, or a refusal without one.
  Result<View> tensor(const ir::Node& node, std::string_view name);
  Result<std::optional<View>> find_tensor(const ir::Node& node, std::string_view name);
  Result<View> value(ir::ValueId id);
  Result<Number> number(const ir::Argument& argument) const;
  Result<Number> number(const ir::Node& node, std::string_view name, std::optional<double> fallback) const;
  Result<std::int64_t> integer(const ir::Node& node, std::string_view name, std::optional<std::int64_t> fallback) const;
  // An axis argument as an index.
  Result<std::size_t> axis(const ir::Node& node, std::string_view name, std::size_t rank,
                           std::optional<std::int64_t> fallback) const;
  Result<std::vector<std::size_t>> axes(const ir::Node& node, std::string_view name, std::size_t rank) const;

  // What the graph says of a value.
  Result<Dims> dims(ir::ValueId id) const;
  DType dtype(ir::ValueId id) const { return graph_.at(id).tensor.dtype; }

  // Memory that later steps write.
  Result<View> make(DType dtype, const Dims& dims);
  // For the node's result at a place, contiguous, and defined as it.
  Result<View> make_result(const ir::Node& node, std::size_t place = 0);
  void define(ir::ValueId id, const View& view);
  // Defines the node's only result, which must have these extents and this type.
  Status define_result(const ir::Node& node, const View& view);
  // A truth that follows from sizes; number() then gives it as 0 or 1.
  void define_truth(ir::ValueId id, bool truth) { truths_[ir::index_of(id)] = truth; }
  // Whether a node or an output of the graph takes the value.
  bool is_used(ir::ValueId id) const;

  // Whether nodes of the graph write the view's memory in place: what PyTorch copies must then be a copy here too.
  bool is_written(const View& view) const;
  // The memory that the current node writes in place; nothing for nodes that write none.
  const std::optional<View>& target() const { return target_; }

  // `used`: every view that the step reads or writes; their memory stays theirs until then.
  void add(std::initializer_list<View> used, Emit emit);
  void add(const std::vector<View>& used, Emit emit);
  // An int32 that is not zero after a run in which an index of the current node was outside its axis.
  View add_flag();

  // The model says that its sizes may not be these; the plan keeps the first such reason. Nodes are planned all the
  // same, since the kernels of a model are also found with sizes that nobody has asked for.
  void forbid_sizes(std::string reason);

  Result<GraphPlan> finish();

  // Plans one node; a failure leaves its results defined as memory that nobody writes, so that the next nodes can be
  // looked at.
  Status plan_node(std::size_t index);
  Status plan_inputs();
  Status plan_outputs();

 private:
  struct Life {
    std::uint32_t first = 0, last = 0;
  };

  std::uint32_t make_block(std::size_t bytes, std::optional<std::uint32_t> weight);
  void use(const View& view);
  void define_unknown(const ir::Node& node);
  Status check_steps(std::size_t first);
  Status plan_in_place(const ir::Node& node);
  bool is_private(ir::ValueId id) const;
  std::uint32_t now() const { return static_cast<std::uint32_t>(plan_.steps.size()); }

  const ir::Graph& graph_;
  const MemoryFacts& facts_;
  const ir::Bindings& sizes_;
  const Traits& traits_;
  GraphPlan plan_;
  std::vector<Life> lives_;                  // by block
  std::vector<std::optional<View>> values_;  // by value
  std::vector<std::optional<bool>> truths_;  // likewise
  std::vector<std::string_view> families_;
  std::vector<std::uint32_t> written_blocks_;  // in place
  std::vector<bool> is_own_;                   // by value: of a node in place that was planned as if it wrote nothing
  std::optional<View> target_;
  std::size_t node_ = 0;
};

// A rule: adds steps for the node and defines its results.
using Rule = Status (*)(PlanBuilder& plan, const ir::Node& node);

struct RuleRow {
  std::string_view target;
  Rule rule;
};

// Null when there is none.
Rule find_rule(std::string_view target);

}  // namespace kpt::native
