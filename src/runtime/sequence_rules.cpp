// The rules of operators that move, cut or join positions; the others are in sequence_check.cpp.
#include <algorithm>
#include <cmath>
#include <limits>

#include "passes/node_arguments.h"
#include "runtime/row_targets.h"
#include "runtime/sequence_check.h"

namespace kpt::detail {
namespace {

constexpr std::int64_t kNoDim = std::numeric_limits<std::int64_t>::max();

bool matches(std::string_view target, std::string_view name) {
  if (target.starts_with("aten.")) target.remove_prefix(5);
  return target == name || target.substr(0, target.rfind('.')) == name;
}

// The axes that "dim" names, from 0; nothing where they cannot be read.
std::optional<std::vector<std::size_t>> named_axes(const ir::Node& node, std::size_t rank) {
  const auto named = ints_argument(node, "dim");
  if (!named || named->empty()) return std::nullopt;
  std::vector<std::size_t> axes;
  for (const std::int64_t dim : *named) {
    const auto axis = axis_of(dim, rank);
    if (!axis) return std::nullopt;
    axes.push_back(*axis);
  }
  return axes;
}

}  // namespace

const SequenceCheck::RuleRow SequenceCheck::kRules[] = {
    {"_log_softmax", &SequenceCheck::check_along},
    {"cat", &SequenceCheck::check_along},
    {"chunk", &SequenceCheck::check_along},
    {"glu", &SequenceCheck::check_along},
    {"log_softmax.int", &SequenceCheck::check_along},
    {"narrow", &SequenceCheck::check_along},
    {"repeat_interleave.self_int", &SequenceCheck::check_along},
    {"split.Tensor", &SequenceCheck::check_along},
    {"split_with_sizes", &SequenceCheck::check_along},
    {"topk", &SequenceCheck::check_along},
    {"amax", &SequenceCheck::check_reduced},
    {"amin", &SequenceCheck::check_reduced},
    {"any.dim", &SequenceCheck::check_reduced},
    {"argmax", &SequenceCheck::check_reduced},
    {"argmin", &SequenceCheck::check_reduced},
    {"linalg_vector_norm", &SequenceCheck::check_reduced},
    {"max.dim", &SequenceCheck::check_reduced},
    {"mean.dim", &SequenceCheck::check_reduced},
    {"min.dim", &SequenceCheck::check_reduced},
    {"squeeze.dim", &SequenceCheck::check_reduced},
    {"squeeze.dims", &SequenceCheck::check_reduced},
    {"sum.dim_IntList", &SequenceCheck::check_reduced},
    {"unbind.int", &SequenceCheck::check_reduced},
    {"_softmax", &SequenceCheck::check_softmax},
    {"softmax.int", &SequenceCheck::check_softmax},
    {"cumsum", &SequenceCheck::check_running},
    {"diff", &SequenceCheck::check_difference},
    {"select.int", &SequenceCheck::check_select},
    {"slice.Tensor", &SequenceCheck::check_slice},
    {"tril", &SequenceCheck::check_triangle},
    {"triu", &SequenceCheck::check_triangle},
    {"unsqueeze", &SequenceCheck::check_unsqueeze},
    {"expand", &SequenceCheck::check_expand},
    {"_unsafe_view", &SequenceCheck::check_view},
    {"flatten.using_ints", &SequenceCheck::check_view},
    {"reshape", &SequenceCheck::check_view},
    {"unflatten.int", &SequenceCheck::check_view},
    {"view.default", &SequenceCheck::check_view},
    {"permute", &SequenceCheck::check_permute},
    {"transpose.int", &SequenceCheck::check_swap},
    {"embedding", &SequenceCheck::check_lookup},
    {"gather", &SequenceCheck::check_lookup},
    {"index.Tensor", &SequenceCheck::check_index},
    {"addmm", &SequenceCheck::check_linear},
    {"linear", &SequenceCheck::check_linear},
    {"kpt.linear", &SequenceCheck::check_linear},
    {"kpt.linear_fp8", &SequenceCheck::check_linear},
    {"kpt.linear_fp8_e5m2", &SequenceCheck::check_linear},
    {"kpt.linear_int4", &SequenceCheck::check_linear},
    {"kpt.linear_int8", &SequenceCheck::check_linear},
    {"kpt.linear_weight_int8", &SequenceCheck::check_linear},
    {"bmm", &SequenceCheck::check_matmul},
    {"matmul", &SequenceCheck::check_matmul},
    {"mm", &SequenceCheck::check_matmul},
    {"layer_norm", &SequenceCheck::check_norm},
    {"native_layer_norm", &SequenceCheck::check_norm},
    {"rms_norm", &SequenceCheck::check_norm},
    {"kpt.add_norm", &SequenceCheck::check_norm},
    {"kpt.glu", &SequenceCheck::check_norm},
    {"kpt.rotary", &SequenceCheck::check_rotary},
    {"scaled_dot_product_attention", &SequenceCheck::check_attention},
    {"kpt.attention", &SequenceCheck::check_attention},
    {"dropout", &SequenceCheck::check_dropout},
    {"arange", &SequenceCheck::check_filled},
    {"full", &SequenceCheck::check_filled},
    {"new_full", &SequenceCheck::check_filled},
    {"new_ones", &SequenceCheck::check_filled},
    {"new_zeros", &SequenceCheck::check_filled},
    {"ones", &SequenceCheck::check_filled},
    {"scalar_tensor", &SequenceCheck::check_filled},
    {"zeros", &SequenceCheck::check_filled},
    {"sym_size.int", &SequenceCheck::check_number},
    {"_operator.add", &SequenceCheck::check_number},
    {"_operator.eq", &SequenceCheck::check_number},
    {"_operator.floordiv", &SequenceCheck::check_number},
    {"_operator.ge", &SequenceCheck::check_number},
    {"_operator.gt", &SequenceCheck::check_number},
    {"_operator.le", &SequenceCheck::check_number},
    {"_operator.lt", &SequenceCheck::check_number},
    {"_operator.mod", &SequenceCheck::check_number},
    {"_operator.mul", &SequenceCheck::check_number},
    {"_operator.ne", &SequenceCheck::check_number},
    {"_operator.sub", &SequenceCheck::check_number},
    {"torch.sym_max", &SequenceCheck::check_number},
    {"torch.sym_min", &SequenceCheck::check_number},
};

SequenceCheck::Rule SequenceCheck::find_rule(std::string_view target) {
  if (is_pointwise(target)) return &SequenceCheck::check_pointwise;
  const auto* found = std::ranges::find_if(kRules, [&](const RuleRow& row) { return matches(target, row.target); });
  return found == std::end(kRules) ? nullptr : found->rule;
}

SequenceCheck::Refusal SequenceCheck::check_number(const Call& call) {
  for (const ir::ValueId id : call.results) {
    if (is_tensor(id)) return kMoves;
    numbers_[ir::index_of(id)] = uses_length(call) || graph_.at(id).kind != ir::ValueKind::kInt || depends(id);
  }
  return {};
}

SequenceCheck::Refusal SequenceCheck::check_view(const Call& call) {
  const ir::ValueId from = call.arguments[0];
  const ir::ValueId to = call.results[0];
  if (!is_tensor(from) || !is_tensor(to)) return kMoves;
  const auto moved = move_axes(dims(from), facts(from).axes, dims(to), symbol_);
  if (!moved) return kMoves;
  SequenceFacts& given = facts(to);
  given.uniform = facts(from).uniform;
  given.given = facts(from).given;
  for (const MovedAxis& axis : *moved) {
    given.axes[axis.to] = {axis.outer, facts(from).axes[axis.from].behind};
    const auto& count = facts(from).count;
    if (count && count->axis == axis.from && is_whole(to, axis.to)) given.count = Count{axis.to, count->offset};
  }
  return {};
}

SequenceCheck::Refusal SequenceCheck::check_expand(const Call& call) {
  const ir::ValueId from = call.arguments[0];
  const ir::ValueId to = call.results[0];
  if (rank(from) > rank(to)) return kMoves;
  const std::size_t shift = rank(to) - rank(from);
  SequenceFacts& given = facts(to);
  given.uniform = facts(from).uniform;
  given.given = facts(from).given;
  for (std::size_t axis = 0; axis < rank(to); ++axis) {
    const bool was_long = axis >= shift && is_long(from, axis - shift);
    if (was_long) {
      if (dims(from)[axis - shift] != dims(to)[axis]) return kMoves;
      given.axes[axis] = facts(from).axes[axis - shift];
    } else if (is_long(to, axis) &&
               !(is_whole(to, axis) && (axis < shift || dims(from)[axis - shift] == ir::Expr(1)))) {
      return kMoves;
    }
  }
  const auto& count = facts(from).count;
  if (count) given.count = Count{count->axis + shift, count->offset};
  return {};
}

SequenceCheck::Refusal SequenceCheck::check_permute(const Call& call) {
  const auto order = ints_argument(call.node, "dims");
  if (!order) return kMoves;
  std::vector<std::size_t> axes;
  for (const std::int64_t dim : *order) axes.push_back(axis_of(dim, rank(call.arguments[0])).value_or(kNone));
  return carry(call.arguments[0], call.results[0], axes, true) ? Refusal() : kMoves;
}

SequenceCheck::Refusal SequenceCheck::check_swap(const Call& call) {
  const std::size_t all = rank(call.arguments[0]);
  const auto first = axis_of(int_argument(call.node, "dim0").value_or(kNoDim), all);
  const auto second = axis_of(int_argument(call.node, "dim1").value_or(kNoDim), all);
  if (!first || !second) return kMoves;
  std::vector<std::size_t> axes = count_axes(all);
  std::swap(axes[*first], axes[*second]);
  return carry(call.arguments[0], call.results[0], axes, true) ? Refusal() : kMoves;
}

SequenceCheck::Refusal SequenceCheck::check_unsqueeze(const Call& call) {
  const std::size_t all = rank(call.results[0]);
  const auto place = axis_of(int_argument(call.node, "dim").value_or(kNoDim), all);
  if (!place) return kMoves;
  std::vector<std::size_t> axes = count_axes(all - 1);
  axes.insert(axes.begin() + static_cast<std::ptrdiff_t>(*place), kNone);
  return carry(call.arguments[0], call.results[0], axes, true) ? Refusal() : kMoves;
}

SequenceCheck::Refusal SequenceCheck::check_along(const Call& call) {
  const std::size_t all = rank(call.arguments[0]);
  const std::string_view name = operator_name(call.node.target);
  std::optional<std::int64_t> usual;
  if (name == "cat" || name == "chunk" || name.starts_with("split")) usual = 0;
  if (name == "glu" || name == "topk") usual = -1;
  const auto named = int_argument(call.node, "dim", usual);
  const auto axis = named ? axis_of(*named, all) : std::nullopt;
  if (uses_length(call) || !axis || is_long(call.arguments[0], *axis)) return kMixes;
  for (const ir::ValueId id : call.arguments) {
    if (!is_tensor(id) || (id != call.arguments[0] && name != "cat")) return kMoves;
    if (!carry(id, call.results[0], count_axes(rank(call.results[0])), false)) return kMoves;
    for (std::size_t other = 0; other < all; ++other) {
      if (is_long(id, other) && !(facts(id).axes[other].outer == facts(call.arguments[0]).axes[other].outer))
        return kMoves;
    }
  }
  return carry_all(call, false) ? Refusal() : kMoves;
}

SequenceCheck::Refusal SequenceCheck::check_reduced(const Call& call) {
  const ir::ValueId from = call.arguments[0];
  const std::string_view name = operator_name(call.node.target);
  const auto axes = name == "unbind" && is_absent(call.node, "dim") ? std::optional(std::vector<std::size_t>{0})
                                                                    : named_axes(call.node, rank(from));
  if (!axes || uses_length(call)) return kMixes;
  std::size_t dropped = kNone;
  for (const std::size_t axis : *axes) {
    if (!is_long(from, axis)) continue;
    const bool harmless = (name == "sum" || name == "any" || name == "amax") && dropped == kNone;
    const double wanted = name == "amax" ? -std::numeric_limits<double>::infinity() : 0.0;
    if (!harmless) return kMixes;
    if (!is_whole(from, axis) || find_behind(from, axis) != wanted) return "adds up what is behind the end";
    dropped = axis;
  }
  const bool same = name == "squeeze" || name == "unbind";
  for (const ir::ValueId to : call.results) {
    std::vector<std::size_t> left = count_axes(rank(from));
    if (rank(to) != rank(from)) {
      std::erase_if(left, [&](std::size_t axis) {
        const bool stays = name == "squeeze" && dims(from)[axis] != ir::Expr(1);
        return std::ranges::find(*axes, axis) != axes->end() && !stays;
      });
    }
    if (!carry(from, to, left, same, dropped)) return kMoves;
  }
  return {};
}

SequenceCheck::Refusal SequenceCheck::check_softmax(const Call& call) {
  const ir::ValueId from = call.arguments[0];
  const auto axes = named_axes(call.node, rank(from));
  if (!axes || axes->size() != 1 || !carry_all(call, false)) return kMoves;
  const std::size_t axis = axes->front();
  if (!is_long(from, axis)) return {};
  const bool hidden = find_behind(from, axis) == -std::numeric_limits<double>::infinity();
  if (!is_whole(from, axis) || !hidden || facts(from).uniform) return kUnhidden;
  facts(call.results[0]).axes[axis].behind = 0.0;
  return {};
}

// Sums up to each position.
SequenceCheck::Refusal SequenceCheck::check_running(const Call& call) {
  const ir::ValueId from = call.arguments[0];
  const auto axes = named_axes(call.node, rank(from));
  if (!axes || axes->size() != 1 || !carry_all(call, false)) return kMoves;
  return is_long(from, axes->front()) && !is_whole(from, axes->front()) ? kMixes : Refusal();
}

// Between each position and the one before it, a single one being put before the first.
SequenceCheck::Refusal SequenceCheck::check_difference(const Call& call) {
  const ir::ValueId from = value_argument(call.node, "self");
  const ir::ValueId before = value_argument(call.node, "prepend");
  const auto axis = axis_of(int_argument(call.node, "dim", -1).value_or(-1), rank(from));
  if (!axis || int_argument(call.node, "n", 1) != 1 || !is_absent(call.node, "append")) return kMixes;
  if (before == ir::kNoValue || !is_whole(from, *axis) || rank(before) != rank(from)) return kMixes;
  if (has_long(before) || dims(before)[*axis] != ir::Expr(1)) return kMixes;
  return carry(from, call.results[0], count_axes(rank(from)), false) ? Refusal() : kMoves;
}

SequenceCheck::Refusal SequenceCheck::check_select(const Call& call) {
  const ir::ValueId from = call.arguments[0];
  const auto axes = named_axes(call.node, rank(from));
  const auto index = int_argument(call.node, "index");
  if (!axes || axes->size() != 1 || uses_length(call)) return kMoves;
  const std::size_t axis = axes->front();
  if (is_long(from, axis)) {
    if (!index || *index < 0) return "takes a position counted from the end";
    if (!is_whole(from, axis) || *index >= least_) return "takes a position that may be behind the end";
  }
  std::vector<std::size_t> left = count_axes(rank(from));
  left.erase(left.begin() + static_cast<std::ptrdiff_t>(axis));
  return carry(from, call.results[0], left, true, axis) ? Refusal() : kMoves;
}

SequenceCheck::Refusal SequenceCheck::check_slice(const Call& call) {
  const ir::ValueId from = call.arguments[0];
  const ir::ValueId to = call.results[0];
  const auto axis = axis_of(int_argument(call.node, "dim", 0).value_or(0), rank(from));
  const auto start = int_argument(call.node, "start", 0);
  if (!axis) return kMoves;
  const std::vector<std::size_t> axes = count_axes(rank(from));
  if (!is_long(from, *axis) && !is_long(to, *axis)) {
    return uses_length(call) || !carry(from, to, axes, true) ? kMoves : Refusal();
  }
  if (!start || *start < 0 || int_argument(call.node, "step", 1) != 1) return "cuts positions from the end";
  if (is_long(from, *axis) && is_long(to, *axis)) {
    if (*start != 0 || dims(from)[*axis] != dims(to)[*axis]) return "cuts positions from the end";
    return carry(from, to, axes, true) ? Refusal() : kMoves;
  }
  if (is_long(from, *axis)) {  // a fixed number of them
    const auto end = int_argument(call.node, "end");
    if (!is_whole(from, *axis) || !end || *end < 0) return "cuts positions from the end";
    if (*end > least_) return "takes a position that may be behind the end";
    return carry(from, to, axes, true, *axis) ? Refusal() : kMoves;
  }
  // As many of what is stored as there are positions.
  const auto stored = dims(from)[*axis].constant();
  if (!is_whole(to, *axis) || !stored || *stored - *start < least_) return kMoves;
  most_ = std::min(most_, *stored - *start);
  facts(to).given = true;
  for (std::size_t other = 0; other < axes.size(); ++other) {
    if (other != *axis && dims(from)[other] != dims(to)[other]) return kMoves;
    if (other != *axis) facts(to).axes[other] = facts(from).axes[other];
  }
  facts(to).uniform = facts(from).uniform;
  return {};
}

// Of rows and columns, both positions: what is above or below the diagonal becomes zero.
SequenceCheck::Refusal SequenceCheck::check_triangle(const Call& call) {
  const ir::ValueId from = call.arguments[0];
  const ir::ValueId to = call.results[0];
  const auto diagonal = int_argument(call.node, "diagonal", 0);
  const std::size_t all = rank(from);
  if (!diagonal || uses_length(call) || all < 2 || !carry(from, to, count_axes(all), false)) return kMoves;
  if (!is_whole(from, all - 2) || !is_whole(from, all - 1)) return {};
  std::optional<double>& column = facts(to).axes[all - 1].behind;
  std::optional<double>& row = facts(to).axes[all - 2].behind;
  if (matches(call.node.target, "tril")) {
    if (*diagonal <= 0) column = 0.0;
    if (*diagonal >= -1) row = find_behind(from, all - 2);
  } else {
    if (*diagonal <= 1) column = find_behind(from, all - 1);
    if (*diagonal >= 0) row = 0.0;
  }
  return {};
}

// Rows of a table that does not depend on the sequence.
SequenceCheck::Refusal SequenceCheck::check_lookup(const Call& call) {
  const bool gathers = matches(call.node.target, "gather");
  const ir::ValueId table = value_argument(call.node, gathers ? "self" : "weight");
  const ir::ValueId indices = value_argument(call.node, gathers ? "index" : "indices");
  if (table == ir::kNoValue || indices == ir::kNoValue || has_long(table)) return kMoves;
  std::vector<std::size_t> axes = count_axes(rank(indices));
  if (!gathers) axes.push_back(kNone);
  const auto along = gathers ? axis_of(int_argument(call.node, "dim").value_or(kNoDim), rank(table)) : 0;
  if (!along || !stay_inside(indices, dims(table)[*along])) return kNoRow;
  facts(call.results[0]).given = gathers;
  return carry(indices, call.results[0], axes, false) ? Refusal() : kMoves;
}

// All axes have an index; one along the sequence must be that of the position itself.
SequenceCheck::Refusal SequenceCheck::check_index(const Call& call) {
  const ir::ValueId from = value_argument(call.node, "self");
  const ir::ValueId to = call.results[0];
  const std::vector<ir::ValueId> indices = values_argument(call.node, "indices");
  if (from == ir::kNoValue || indices.size() != rank(from) || !align(indices, to)) return kMoves;
  std::vector<std::size_t> places;  // where axes along the sequence go, each to its own
  for (std::size_t axis = 0; axis < indices.size(); ++axis) {
    const ir::ValueId index = indices[axis];
    if (graph_.at(index).tensor.dtype == DType::kBool) return kMoves;
    if (!is_long(from, axis)) {
      if (!stay_inside(index, dims(from)[axis])) return kNoRow;
      continue;
    }
    const auto& count = facts(index).count;
    if (!count || count->offset != 0 || !is_whole(from, axis)) return kMoves;
    const std::size_t place = count->axis + rank(to) - rank(index);
    if (!is_whole(to, place) || std::ranges::find(places, place) != places.end()) return kMoves;
    places.push_back(place);
    facts(to).axes[place].behind = find_behind(from, axis);
  }
  return {};
}

SequenceCheck::Refusal SequenceCheck::check_dropout(const Call& call) {
  if (bool_argument(call.node, "train", true) != false) return "draws at random";
  return carry_all(call, true) ? Refusal() : kMoves;
}

}  // namespace kpt::detail
