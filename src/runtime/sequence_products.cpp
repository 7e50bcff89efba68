// The rules of products, norms and attention; the others are in sequence_check.cpp.
#include <algorithm>
#include <cmath>
#include <limits>

#include "passes/node_arguments.h"
#include "runtime/sequence_check.h"

namespace kpt::detail {
// Of the first matrix each row by itself; the second one, and what is not of the result's shape, are weights.
SequenceCheck::Refusal SequenceCheck::check_linear(const Call& call) {
  const bool adds = call.node.target == "aten.addmm.default";
  const ir::ValueId input = value_argument(call.node, adds ? "mat1" : "input");
  const ir::ValueId result = call.results[0];
  if (input == ir::kNoValue || rank(input) < 2 || uses_length(call)) return kMoves;
  if (is_long(input, rank(input) - 1)) return kMixes;
  std::vector<ir::ValueId> rows = {input};
  for (const ir::ValueId id : call.arguments) {
    if (id == input || !has_long(id)) continue;
    if (id != value_argument(call.node, adds ? "self" : "residual")) return kMixes;
    rows.push_back(id);
  }
  return align(rows, result) ? Refusal() : kMoves;
}

SequenceCheck::Refusal SequenceCheck::check_matmul(const Call& call) {
  const ir::ValueId result = call.results[0];
  if (call.arguments.size() != 2) return kMoves;
  const ir::ValueId a = call.arguments[0];
  const ir::ValueId b = call.arguments[1];
  if (rank(a) < 2 || rank(b) < 2 || rank(result) != std::max(rank(a), rank(b))) return kMoves;
  const std::size_t inner_a = rank(a) - 1;
  const std::size_t inner_b = rank(b) - 2;
  if (is_long(a, inner_a) || is_long(b, inner_b)) {
    if (!is_whole(a, inner_a) || !is_whole(b, inner_b)) return kMixes;
    if (find_behind(a, inner_a) != 0.0 && find_behind(b, inner_b) != 0.0) return "adds up what is behind the end";
  }
  // Each axis of the result comes from axes of both at its place, but the last two from one each.
  for (std::size_t axis = 0; axis < rank(result); ++axis) {
    const std::size_t back = rank(result) - axis;
    bool set = false;
    for (const ir::ValueId id : {a, b}) {
      if (back > rank(id) || (back == 1 && id == a) || (back == 2 && id == b)) continue;
      const std::size_t own = rank(id) - back;
      if (!is_long(id, own)) {
        if (is_long(result, axis) && dims(id)[own] != ir::Expr(1)) return kMoves;
        continue;
      }
      const Factors& outer = facts(id).axes[own].outer;
      if (dims(id)[own] != dims(result)[axis]) return kMoves;
      if (set && !(facts(result).axes[axis].outer == outer)) return kMoves;
      set = true;
      facts(result).axes[axis].outer = outer;
    }
    if (is_long(result, axis) && !set) return kMoves;
  }
  return {};
}

// Over the last axes of each position: norms and gated units.
SequenceCheck::Refusal SequenceCheck::check_norm(const Call& call) {
  const ir::ValueId input = value_argument(call.node, "input");
  std::size_t last = 1;
  if (const ir::Argument* shape = find_argument(call.node, "normalized_shape"); shape != nullptr) {
    if (shape->list() == nullptr) return kMixes;
    last = shape->list()->items.size();
  }
  if (input == ir::kNoValue || uses_length(call) || rank(input) < last) return kMixes;
  for (std::size_t axis = rank(input) - last; axis < rank(input); ++axis) {
    if (is_long(input, axis)) return kMixes;
  }
  std::vector<ir::ValueId> rows = {input};
  for (const ir::ValueId id : call.arguments) {
    if (id == input || !has_long(id)) continue;
    if (id != value_argument(call.node, "residual")) return kMixes;
    rows.push_back(id);
  }
  for (const ir::ValueId id : call.results) {
    const bool none = rank(id) == 1 && dims(id)[0] == ir::Expr(0);  // statistics that are given only in training
    if (!none && !align(rows, id)) return kMoves;
  }
  return {};
}

SequenceCheck::Refusal SequenceCheck::check_rotary(const Call& call) {
  for (const ir::ValueId id : call.arguments) {
    if (!is_tensor(id) || rank(id) == 0 || is_long(id, rank(id) - 1)) return kMixes;
  }
  return align(call.arguments, call.results[0]) ? Refusal() : kMoves;
}

// Queries, keys and values are long along their last axis but one, or not at all.
SequenceCheck::Refusal SequenceCheck::check_attention(const Call& call) {
  const bool own = call.node.target.starts_with("kpt.");
  const ir::ValueId query = value_argument(call.node, "query");
  const ir::ValueId key = value_argument(call.node, "key");
  const ir::ValueId value = value_argument(call.node, "value");
  const ir::ValueId mask = value_argument(call.node, own ? "mask" : "attn_mask");
  const ir::ValueId result = call.results[0];
  if (uses_length(call) || number_argument(call.node, "dropout_p", 0.0) != 0.0) return kMixes;
  for (const ir::ValueId id : {query, key, value}) {
    if (id == ir::kNoValue || rank(id) < 3) return kMoves;
    for (std::size_t axis = 0; axis < rank(id); ++axis) {
      if (is_long(id, axis) && (axis != rank(id) - 2 || !is_whole(id, axis))) return kMixes;
    }
  }
  const bool long_query = has_long(query);
  const bool long_key = has_long(key);
  const bool causal = bool_argument(call.node, own ? "causal" : "is_causal", false).value_or(false);
  if (long_key != has_long(value)) return kMoves;
  bool hidden = !long_key || (causal && long_query);
  if (mask != ir::kNoValue) {
    const std::size_t all = rank(mask);
    for (std::size_t axis = 0; axis < all; ++axis) {
      const std::size_t back = all - axis;
      const bool wanted = (back == 1 && long_key) || (back == 2 && long_query);
      if (is_long(mask, axis) ? !wanted || !is_whole(mask, axis) : wanted && dims(mask)[axis] != ir::Expr(1))
        return kMoves;
    }
    const double wanted = graph_.at(mask).tensor.dtype == DType::kBool ? 0.0 : -std::numeric_limits<double>::infinity();
    hidden = hidden || (all > 0 && is_long(mask, all - 1) && find_behind(mask, all - 1) == wanted);
  }
  if (!hidden) return kUnhidden;
  // Ours puts the heads behind the positions.
  const std::size_t place = own ? 1 : rank(result) - 2;
  for (std::size_t axis = 0; axis < rank(result); ++axis) {
    if (is_long(result, axis) != (long_query && axis == place)) return kMoves;
  }
  return {};
}

}  // namespace kpt::detail
