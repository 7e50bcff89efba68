#include "runtime/sequence_check.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "passes/memory_facts.h"
#include "passes/node_arguments.h"
#include "runtime/row_targets.h"

namespace kpt::detail {
namespace {

// Statistics that a norm gives only in training.
bool is_empty(const std::vector<ir::Expr>& dims) { return dims.size() == 1 && dims[0] == ir::Expr(0); }

// Whether positions, and comparisons of them, are exact in it.
bool is_exact(DType dtype) { return dtype == DType::kInt64 || dtype == DType::kInt32; }

// Numbers that are the same in every type; others may be rounded.
std::optional<double> read_number(const ir::Argument& argument) {
  std::optional<double> number;
  if (const auto* truth = std::get_if<bool>(&argument.value)) number = *truth ? 1.0 : 0.0;
  if (const auto* whole = std::get_if<std::int64_t>(&argument.value)) number = static_cast<double>(*whole);
  if (const auto* real = std::get_if<double>(&argument.value)) number = *real;
  const bool exact = number && (*number == 0 || *number == 1 || std::isinf(*number));
  return exact ? number : std::nullopt;
}

std::optional<ir::ExprOp> find_comparison(std::string_view target) {
  if (target == "_operator.eq") return ir::ExprOp::kEqual;
  if (target == "_operator.ge") return ir::ExprOp::kGreaterEqual;
  if (target == "_operator.le") return ir::ExprOp::kLessEqual;
  return std::nullopt;
}

}  // namespace

std::vector<std::size_t> SequenceCheck::count_axes(std::size_t rank) {
  std::vector<std::size_t> axes(rank);
  for (std::size_t axis = 0; axis < rank; ++axis) axes[axis] = axis;
  return axes;
}

SequenceCheck::SequenceCheck(const ir::Graph& graph, std::string symbol, std::int64_t least, bool masked,
                             const WeightNumbers& numbers)
    : graph_(graph),
      symbol_(std::move(symbol)),
      least_(least),
      facts_(graph.values.size()),
      numbers_(graph.values.size(), false) {
  for (std::size_t value = 0; value < graph.values.size(); ++value) {
    facts_[value].axes.resize(graph.values[value].tensor.dims.size());
  }
  for (const ir::GraphInput& input : graph.inputs) {
    const auto number = is_weight(input) ? numbers.find(input.name) : numbers.end();
    if (number != numbers.end()) facts(input.value).uniform = number->second;
    if (input.kind != ir::InputKind::kUser || !is_tensor(input.value)) continue;
    const DType dtype = graph.at(input.value).tensor.dtype;
    facts(input.value).given = true;
    if (!masked || !(is_integral(dtype) || dtype == DType::kBool)) continue;
    for (std::size_t axis = 0; axis < rank(input.value); ++axis) {
      if (is_long(input.value, axis)) facts(input.value).axes[axis].behind = 0.0;
    }
  }
}

Status SequenceCheck::check() {
  for (const ir::Node& node : graph_.nodes) {
    Call call{node, {}, {}};
    for (const ir::NamedArgument& argument : node.arguments) {
      ir::for_each_value(argument.value, [&](ir::ValueId id) { call.arguments.push_back(id); });
    }
    for (const ir::Output& output : node.outputs) {
      std::ranges::copy_if(output.values, std::back_inserter(call.results),
                           [](ir::ValueId id) { return id != ir::kNoValue; });
    }
    if (const Refusal why = check_node(call); !why.empty()) {
      return {StatusCode::kUnsupported, fmt::format("node '{}' ({}) {}", node.name, node.target, why)};
    }
  }
  return {};
}

SequenceCheck::Refusal SequenceCheck::check_node(const Call& call) {
  const std::string_view target = call.node.target;
  if (draws_at_random(call.node)) return "draws at random";
  if (is_written(target)) return "writes its argument";
  const auto depends_on = [&](ir::ValueId id) { return depends(id); };
  const bool touched = std::ranges::any_of(call.arguments, depends_on) || std::ranges::any_of(call.results, depends_on);
  const Rule rule = find_rule(target);
  if (!touched) {
    if (rule == &SequenceCheck::check_filled && !call.results.empty()) return check_filled(call);
    return {};
  }
  if (target == "aten._assert_scalar.default") return check_assertion(call);
  if (call.results.empty() || rule == nullptr) return kUnknown;
  for (const ir::ValueId id : call.results) {
    if (!is_tensor(id)) continue;
    const auto odd = [&](const ir::Expr& dim) { return mentions(dim, symbol_) && !is_multiple(dim, symbol_); };
    if (std::ranges::any_of(dims(id), odd)) return "gives another length";
  }
  return (this->*rule)(call);
}

// Of truth values a file tells only which node compares what.
ir::Expr SequenceCheck::find_condition(ir::ValueId id) const {
  const auto makes = [id](const ir::Node& node) {
    return node.outputs.size() == 1 && node.outputs[0].values == std::vector<ir::ValueId>{id};
  };
  const auto maker = std::ranges::find_if(graph_.nodes, makes);
  const auto op = maker == graph_.nodes.end() ? std::nullopt : find_comparison(maker->target);
  if (!op) return graph_.at(id).expression;
  std::vector<ir::Expr> sides;
  for (const std::string_view name : {"a", "b"}) {
    const ir::ValueId side = value_argument(*maker, name);
    const auto number = int_argument(*maker, name);
    if (side == ir::kNoValue && !number) return graph_.at(id).expression;
    sides.push_back(side != ir::kNoValue ? graph_.at(side).expression : ir::Expr(*number));
  }
  return ir::Expr::make(*op, std::move(sides));
}

// It guards what the graph was specialised to: both the sequence as it is and the longer one must meet it.
SequenceCheck::Refusal SequenceCheck::check_assertion(const Call& call) {
  const bool number = call.arguments.size() == 1 && !is_tensor(call.arguments[0]);
  return number && holds_for_all(find_condition(call.arguments[0]), symbol_) ? Refusal() : kLength;
}

bool SequenceCheck::depends(ir::ValueId id) const {
  const ir::Value& value = graph_.at(id);
  if (value.kind == ir::ValueKind::kTensor) return has_long(id);
  return numbers_[ir::index_of(id)] || mentions(value.expression, symbol_);
}

bool SequenceCheck::is_long(ir::ValueId id, std::size_t axis) const { return mentions(dims(id)[axis], symbol_); }

bool SequenceCheck::is_whole(ir::ValueId id, std::size_t axis) const {
  return dims(id)[axis] == ir::Expr::symbol(symbol_);
}

bool SequenceCheck::has_long(ir::ValueId id) const {
  return std::ranges::any_of(dims(id), [&](const ir::Expr& dim) { return mentions(dim, symbol_); });
}

bool SequenceCheck::uses_length(const Call& call) const {
  return std::ranges::any_of(call.arguments, [&](ir::ValueId id) { return !is_tensor(id) && depends(id); });
}

std::optional<double> SequenceCheck::find_behind(ir::ValueId id, std::size_t axis) {
  if (facts(id).uniform) return facts(id).uniform;
  return is_long(id, axis) ? facts(id).axes[axis].behind : std::nullopt;
}

bool SequenceCheck::carry(ir::ValueId from, ir::ValueId to, std::span<const std::size_t> axes, bool same,
                          std::size_t dropped) {
  if (axes.size() != rank(to)) return false;
  std::vector<bool> kept(rank(from), false);
  SequenceFacts& result = facts(to);
  for (std::size_t axis = 0; axis < axes.size(); ++axis) {
    const std::size_t source = axes[axis];
    if (source != kNone && source >= kept.size()) return false;
    const bool was_long = source != kNone && is_long(from, source);
    if (is_long(to, axis) != was_long || (was_long && dims(from)[source] != dims(to)[axis])) {
      if (was_long && source == dropped && !is_long(to, axis)) continue;
      return false;
    }
    if (!was_long) continue;
    kept[source] = true;
    result.axes[axis].outer = facts(from).axes[source].outer;
    if (same) result.axes[axis].behind = find_behind(from, source);
    const auto& count = facts(from).count;
    if (same && count && count->axis == source) result.count = Count{axis, count->offset};
  }
  if (same) result.uniform = facts(from).uniform;
  if (same) result.given = facts(from).given;
  for (std::size_t axis = 0; axis < kept.size(); ++axis) {
    if (is_long(from, axis) && !kept[axis] && axis != dropped) return false;
  }
  return true;
}

bool SequenceCheck::stay_inside(ir::ValueId indices, const ir::Expr& rows) {
  const SequenceFacts& known = facts(indices);
  if (!has_long(indices) || known.given || known.uniform) return true;
  if (known.count) {
    const auto number = rows.constant();
    if (!number || known.count->offset < 0 || *number - known.count->offset < least_) return false;
    most_ = std::min(most_, *number - known.count->offset);
    return true;
  }
  std::size_t axes = 0;
  bool all_known = true;
  for (std::size_t axis = 0; axis < rank(indices); ++axis) {
    if (!is_long(indices, axis)) continue;
    ++axes;
    all_known = all_known && known.axes[axis].behind.has_value();  // 0 or 1
  }
  return axes == 1 && all_known;
}

bool SequenceCheck::carry_all(const Call& call, bool same) {
  return !call.arguments.empty() && std::ranges::all_of(call.results, [&](ir::ValueId id) {
    return is_empty(dims(id)) || carry(call.arguments[0], id, count_axes(rank(id)), same);
  });
}

bool SequenceCheck::align(std::span<const ir::ValueId> tensors, ir::ValueId to) {
  std::vector<bool> set(rank(to), false);
  for (const ir::ValueId id : tensors) {
    if (rank(id) > rank(to)) return false;
    const std::size_t shift = rank(to) - rank(id);
    for (std::size_t axis = 0; axis < rank(id); ++axis) {
      const std::size_t place = axis + shift;
      if (!is_long(id, axis)) {
        if (is_long(to, place) && dims(id)[axis] != ir::Expr(1)) return false;
        continue;
      }
      const Factors& outer = facts(id).axes[axis].outer;
      if (dims(id)[axis] != dims(to)[place]) return false;
      if (set[place] && !(facts(to).axes[place].outer == outer)) return false;
      set[place] = true;
      facts(to).axes[place].outer = outer;
    }
  }
  for (std::size_t axis = 0; axis < set.size(); ++axis) {
    if (is_long(to, axis) && !set[axis]) return false;
  }
  return true;
}

// Along an axis of the first result, or, without one, of numbers that all elements are.
KnownArguments SequenceCheck::known_at(const Call& call, std::optional<std::size_t> axis) {
  KnownArguments known;
  const std::size_t all = rank(call.results[0]);
  for (const ir::NamedArgument& argument : call.node.arguments) {
    const ir::ValueId* id = argument.value.value_id();
    if (id == nullptr) {
      known.emplace_back(argument.name, read_number(argument.value));
    } else if (!is_tensor(*id)) {
      known.emplace_back(argument.name, std::nullopt);
    } else if (!axis || all - rank(*id) > *axis) {
      known.emplace_back(argument.name, facts(*id).uniform);
    } else {
      known.emplace_back(argument.name, find_behind(*id, *axis - (all - rank(*id))));
    }
  }
  return known;
}

SequenceCheck::Refusal SequenceCheck::check_pointwise(const Call& call) {
  if (uses_length(call)) return kLength;
  const ir::ValueId result = call.results[0];
  const std::string_view name = operator_name(call.node.target);
  std::vector<ir::ValueId> tensors;
  std::ranges::copy_if(call.arguments, std::back_inserter(tensors), [&](ir::ValueId id) { return is_tensor(id); });
  if (name == "type_as" && tensors.size() == 2) tensors.pop_back();  // of the second only the type is taken
  if (call.results.size() != 1 || !align(tensors, result)) return kMoves;
  const DType dtype = graph_.at(result).tensor.dtype;
  SequenceFacts& given = facts(result);
  given.uniform = evaluate_known(name, known_at(call, std::nullopt), dtype);
  for (std::size_t axis = 0; axis < rank(result); ++axis) {
    if (is_long(result, axis)) given.axes[axis].behind = evaluate_known(name, known_at(call, axis), dtype);
  }
  return check_count(call);
}

// Positions that are shifted or compared. Never refuses.
SequenceCheck::Refusal SequenceCheck::check_count(const Call& call) {
  const ir::ValueId result = call.results[0];
  const ir::ValueId self = value_argument(call.node, "self");
  const std::string_view name = operator_name(call.node.target);
  constexpr std::string_view kSame[] = {"_to_copy", "alias", "clone", "contiguous", "detach", "to"};
  const bool is_same = std::ranges::find(kSame, name) != std::end(kSame);
  if (self == ir::kNoValue || !is_tensor(self)) return {};
  facts(result).given = is_same && facts(self).given;
  if (!facts(self).count) return {};
  const auto at = [&](ir::ValueId id) { return facts(id).count->axis + rank(result) - rank(id); };
  const std::int64_t offset = facts(self).count->offset;
  const bool exact = is_exact(graph_.at(result).tensor.dtype);
  if (exact && is_same) facts(result).count = Count{at(self), offset};
  const ir::ValueId other = value_argument(call.node, "other");
  const auto shift = int_argument(call.node, "other");
  constexpr std::int64_t kLargest = std::int64_t{1} << 40U;
  if (exact && (name == "add" || name == "sub") && shift && std::abs(*shift) < kLargest &&
      std::abs(offset) < kLargest && is_absent(call.node, "alpha")) {
    facts(result).count = Count{at(self), name == "add" ? offset + *shift : offset - *shift};
  }
  if (other == ir::kNoValue || !is_tensor(other) || !facts(other).count || at(self) == at(other)) return {};
  for (const auto& [axis, self_behind] : {std::pair(at(self), true), std::pair(at(other), false)}) {
    const auto known = compare_behind_end(name, offset, facts(other).count->offset, self_behind);
    if (known) facts(result).axes[axis].behind = known;
  }
  return {};
}

// Constants, and 0, 1, 2, … once for each position.
SequenceCheck::Refusal SequenceCheck::check_filled(const Call& call) {
  const ir::ValueId result = call.results[0];
  const std::string_view name = operator_name(call.node.target);
  for (std::size_t axis = 0; axis < rank(result); ++axis) {
    if (is_long(result, axis) && !is_whole(result, axis)) return kMoves;
  }
  if (name == "arange") {
    const auto start = int_argument(call.node, "start", 0);
    if (!has_long(result)) return uses_length(call) ? kLength : Refusal();
    if (!start || int_argument(call.node, "step", 1) != 1) return kMoves;
    if (is_exact(graph_.at(result).tensor.dtype)) facts(result).count = Count{0, *start};
    return {};
  }
  for (const std::string_view number : {"fill_value", "s"}) {
    const ir::ValueId id = value_argument(call.node, number);
    if (id != ir::kNoValue && depends(id)) return kLength;
  }
  SequenceFacts& given = facts(result);
  if (name == "ones" || name == "new_ones") given.uniform = 1.0;
  if (name == "zeros" || name == "new_zeros") given.uniform = 0.0;
  const ir::Argument* value = find_argument(call.node, name == "scalar_tensor" ? "s" : "fill_value");
  if (value != nullptr) {
    given.uniform = evaluate_known("full_like", {{"fill_value", read_number(*value)}}, graph_.at(result).tensor.dtype);
  }
  return {};
}

}  // namespace kpt::detail
