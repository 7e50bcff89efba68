// One node while it is lowered: what a rule reads its arguments from and gives its results to.
//
// All readers throw Refusal when an argument is missing or of another kind; lower.cpp turns that into the node's
// reason. Numbers that are sizes of the graph are constants here, since all sizes are known.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engines/xla/stablehlo/builder.h"
#include "engines/xla/stablehlo/environment.h"
#include "engines/xla/stablehlo/promotion.h"
#include "ir/graph.h"

namespace kpt::xla {

class Numbers;  // numbers.h

struct ResultType {
  DType dtype = DType::kFloat32;
  Extents dims;
};

class Call {
 public:
  // `writes`: the node is the in-place form of the operator; its only result is its first argument.
  Call(const ir::Graph& graph, const ir::Node& node, Environment& environment, Numbers& numbers, Builder& builder,
       bool writes);

  Builder& builder() { return builder_; }
  const ir::Node& node() const { return node_; }
  bool writes() const { return writes_; }

  bool has(std::string_view name) const;  // given, and not None
  Value tensor(std::string_view name);
  std::optional<Value> find_tensor(std::string_view name);
  Operand operand(std::string_view name);  // a tensor or a number
  std::vector<Value> tensors(std::string_view name);
  std::vector<std::optional<Value>> optional_tensors(std::string_view name);
  Number number(std::string_view name);
  std::optional<Number> find_number(std::string_view name);
  double real(std::string_view name, double fallback);
  std::int64_t integer(std::string_view name);
  std::int64_t integer(std::string_view name, std::int64_t fallback);
  bool flag(std::string_view name, bool fallback);
  std::optional<Extents> find_ints(std::string_view name);  // a single integer counts as a list of one
  Extents ints(std::string_view name, const Extents& fallback);
  Extents ints_per_axis(std::string_view name, std::size_t axes, const Extents& fallback);  // one stands for all axes
  std::string_view text(std::string_view name, std::string_view fallback) const;
  // An axis from 0; axes in rising order, all of them when the list is absent or empty.
  std::size_t axis(std::string_view name, std::size_t rank, std::optional<std::int64_t> fallback = std::nullopt);
  Extents axes(std::string_view name, std::size_t rank);

  // The strides that the graph records for an argument or a result: where they are equal, or fit a view, PyTorch copied
  // nothing.
  Extents recorded_strides(std::string_view argument) const;
  Extents recorded_strides(std::size_t result) const;

  // What the graph records for a result; results of lists are counted through.
  std::size_t result_count() const { return results_.size(); }
  const ResultType& type(std::size_t result = 0) const;
  bool is_used(std::size_t result) const;  // by a node or as an output
  // Gives a result. Its dims must be those that the graph records; it is converted to the recorded element type.
  void set(Value value, std::size_t result = 0);
  // The result shares the memory of an argument. Here, too, dims must be as recorded.
  void set_view(std::string_view argument, std::span<const ViewStep> steps, std::size_t result = 0);
  // Whether all results were given; those of rules that leave out unused ones count.
  void leave_out(std::size_t result);
  void check_complete() const;

  // In the type in which the operands meet (never less than the result's when both are floats), 16-bit floats widened.
  DType compute_dtype(std::span<const Operand> operands);
  // An operand in an element type, broadcast to the first result (or to `dims`).
  Value expand(const Operand& operand, DType dtype);
  Value expand(const Operand& operand, DType dtype, const Extents& dims);

 private:
  const ir::Argument* find(std::string_view name) const;
  ir::ValueId result_id(std::size_t result) const;
  std::optional<Number> to_number(const ir::Argument& argument) const;

  const ir::Graph& graph_;
  const ir::Node& node_;
  Environment& environment_;
  Numbers& numbers_;
  Builder& builder_;
  bool writes_;
  std::vector<ir::ValueId> results_;
  std::vector<ResultType> types_;
  std::vector<bool> given_;
};

// Where a value of another kind than the schema says would be a mistake of the exporter or of a pass.
[[noreturn]] void refuse(std::string reason);

std::size_t normalize_axis(std::int64_t axis, std::size_t rank);

struct Rule {
  std::string_view target;  // "aten.add.Tensor"
  void (*lower)(Call& call);
};

// Null when no rule is there.
const Rule* find_rule(std::string_view target);
// All families, for tests.
std::vector<std::span<const Rule>> rule_families();
std::span<const Rule> activation_rules();
std::span<const Rule> arithmetic_rules();
std::span<const Rule> attention_rules();
std::span<const Rule> comparison_rules();
std::span<const Rule> convolution_rules();
std::span<const Rule> creation_rules();
std::span<const Rule> einsum_rules();
std::span<const Rule> indexing_rules();
std::span<const Rule> matmul_rules();
std::span<const Rule> norm_rules();
std::span<const Rule> order_rules();
std::span<const Rule> own_rules();
std::span<const Rule> pooling_rules();
std::span<const Rule> reduction_rules();
std::span<const Rule> resize_rules();
std::span<const Rule> shape_rules();
std::span<const Rule> unary_rules();
std::span<const Rule> view_rules();

}  // namespace kpt::xla
