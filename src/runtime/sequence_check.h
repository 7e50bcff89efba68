// The rules behind find_sequence_rows(): one for each family of operators.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"
#include "kpt/status.h"
#include "runtime/sequence_facts.h"
#include "runtime/sequence_rows.h"

namespace kpt::detail {

// Looks at the nodes in turn and remembers what is known of their results. "Long" is an axis along the sequence.
class SequenceCheck {
 public:
  // The graph must outlive it. Sequences have at least `least` positions. `masked`: inputs of integers and truth values
  // are zero behind the end. `numbers`: what weights without axes hold.
  SequenceCheck(const ir::Graph& graph, std::string symbol, std::int64_t least, bool masked,
                const WeightNumbers& numbers);

  // Fails with kUnsupported, naming the first node that is not known to keep what is behind the end away from the rest.
  Status check();

  // The longest sequence for which that holds: tables have so many rows.
  std::int64_t most() const { return most_; }

  // Whether the symbol is in a number, or in an extent.
  bool depends(ir::ValueId id) const;

 private:
  struct Call {
    const ir::Node& node;
    std::vector<ir::ValueId> arguments;
    std::vector<ir::ValueId> results;
  };
  // Why a node is refused; empty: it is not.
  using Refusal = std::string_view;
  static constexpr Refusal kUnknown = "is not known to keep positions apart";
  static constexpr Refusal kMoves = "puts positions elsewhere";
  static constexpr Refusal kMixes = "works along the sequence";
  static constexpr Refusal kLength = "computes with the length";
  static constexpr Refusal kNoRow = "looks up rows that may not be there behind the end";
  static constexpr Refusal kUnhidden = "looks at keys behind the end: no mask is known to be false or -inf there";
  using Rule = Refusal (SequenceCheck::*)(const Call&);
  static constexpr auto kNone = static_cast<std::size_t>(-1);
  struct RuleRow {
    std::string_view target;  // without the overload, or with it where overloads differ
    Rule rule;
  };
  static const RuleRow kRules[];
  static Rule find_rule(std::string_view target);

  Refusal check_node(const Call& call);
  Refusal check_assertion(const Call& call);
  ir::Expr find_condition(ir::ValueId id) const;
  Refusal check_pointwise(const Call& call);
  Refusal check_count(const Call& call);
  Refusal check_filled(const Call& call);
  Refusal check_number(const Call& call);
  Refusal check_view(const Call& call);
  Refusal check_expand(const Call& call);
  Refusal check_permute(const Call& call);
  Refusal check_swap(const Call& call);
  Refusal check_unsqueeze(const Call& call);
  Refusal check_along(const Call& call);  // along axes that are not long, which the result has as well
  Refusal check_reduced(const Call& call);
  Refusal check_softmax(const Call& call);
  Refusal check_running(const Call& call);
  Refusal check_difference(const Call& call);
  Refusal check_select(const Call& call);
  Refusal check_slice(const Call& call);
  Refusal check_triangle(const Call& call);
  Refusal check_lookup(const Call& call);
  Refusal check_index(const Call& call);
  Refusal check_linear(const Call& call);
  Refusal check_matmul(const Call& call);
  Refusal check_norm(const Call& call);
  Refusal check_rotary(const Call& call);
  Refusal check_attention(const Call& call);
  Refusal check_dropout(const Call& call);

  static std::vector<std::size_t> count_axes(std::size_t rank);  // 0, 1, 2, …
  bool is_tensor(ir::ValueId id) const { return graph_.at(id).kind == ir::ValueKind::kTensor; }
  const std::vector<ir::Expr>& dims(ir::ValueId id) const { return graph_.at(id).tensor.dims; }
  std::size_t rank(ir::ValueId id) const { return dims(id).size(); }
  bool is_long(ir::ValueId id, std::size_t axis) const;
  bool is_whole(ir::ValueId id, std::size_t axis) const;  // its extent is the symbol alone
  bool has_long(ir::ValueId id) const;
  bool uses_length(const Call& call) const;  // as a number
  SequenceFacts& facts(ir::ValueId id) { return facts_[ir::index_of(id)]; }
  std::optional<double> find_behind(ir::ValueId id, std::size_t axis);

  // Each axis of `to` is the one of `from` that `axes` names, or none (kNone). False where a long axis has no such
  // origin or gets lost, but for `dropped`. `same`: the elements are the same too.
  bool carry(ir::ValueId from, ir::ValueId to, std::span<const std::size_t> axes, bool same,
             std::size_t dropped = kNone);
  bool carry_all(const Call& call, bool same);  // from the first argument, axis by axis, to all results
  // Tensors are broadcast together: long axes meet long axes, or extents of 1.
  bool align(std::span<const ir::ValueId> tensors, ir::ValueId to);
  KnownArguments known_at(const Call& call, std::optional<std::size_t> axis);
  // Whether indices into `rows` rows are none further behind the end, up to a length that is noted.
  bool stay_inside(ir::ValueId indices, const ir::Expr& rows);

  const ir::Graph& graph_;
  std::string symbol_;
  std::int64_t least_;
  std::int64_t most_ = std::numeric_limits<std::int64_t>::max();
  std::vector<SequenceFacts> facts_;  // by value
  std::vector<bool> numbers_;         // by value: a number that the length decides
};

}  // namespace kpt::detail
