#include "passes/fuse_rotary.h"

#include "passes/node_arguments.h"
#include "passes/own_calls.h"
#include "passes/view_types.h"

namespace kpt {
namespace {

struct RotaryCall {
  ir::ValueId input = ir::kNoValue;
  ir::ValueId cos = ir::kNoValue;
  ir::ValueId sin = ir::kNoValue;
};

class RotaryMatcher {
 public:
  RotaryMatcher(const GraphEdit& edit, const Capabilities& capabilities) : edit_(edit), capabilities_(capabilities) {}

  bool match(const ir::Node& node, RotaryCall& call) const {
    if (node.target != "aten.add.Tensor" || number_argument(node, "alpha", 1.0) != 1.0) return false;
    const ir::ValueId a = value_argument(node, "self");
    const ir::ValueId b = value_argument(node, "other");
    if (a == ir::kNoValue || b == ir::kNoValue) return false;
    return (match_terms(a, b, call) || match_terms(b, a, call)) && fits(call, only_result(node));
  }

 private:
  // straight = x · cos, turned = rotate_half(x) · sin
  bool match_terms(ir::ValueId straight, ir::ValueId turned, RotaryCall& call) const {
    const ir::Node* first = edit_.made_by(straight, {"aten.mul.Tensor"});
    const ir::Node* second = edit_.made_by(turned, {"aten.mul.Tensor"});
    if (first == nullptr || second == nullptr || !edit_.has_one_use(straight) || !edit_.has_one_use(turned))
      return false;
    for (const auto& [half, sin] : operands(*second)) {
      const ir::ValueId input = rotated(half);
      if (input == ir::kNoValue) continue;
      for (const auto& [x, cos] : operands(*first)) {
        if (x != input || cos == ir::kNoValue) continue;
        call = {input, cos, sin};
        return true;
      }
    }
    return false;
  }

  static std::array<std::pair<ir::ValueId, ir::ValueId>, 2> operands(const ir::Node& node) {
    const ir::ValueId a = value_argument(node, "self");
    const ir::ValueId b = value_argument(node, "other");
    return {std::pair(a, b), std::pair(b, a)};
  }

  // x of cat([-x[second half], x[first half]], last axis)
  ir::ValueId rotated(ir::ValueId id) const {
    const ir::Node* cat = edit_.made_by(id, {"aten.cat.default"});
    if (cat == nullptr || !edit_.has_one_use(id)) return ir::kNoValue;
    const std::vector<ir::ValueId> parts = values_argument(*cat, "tensors");
    const std::size_t rank = edit_.type(id).dims.size();
    if (parts.size() != 2 || axis_of(int_argument(*cat, "dim", 0).value_or(99), rank) != rank - 1) return ir::kNoValue;
    const ir::Node* negation = edit_.made_by(parts[0], {"aten.neg.default"});
    if (negation == nullptr || !edit_.has_one_use(parts[0]) || !edit_.has_one_use(parts[1])) return ir::kNoValue;
    const auto width = last_dim(edit_.type(id)).constant();
    if (!width || *width % 2 != 0) return ir::kNoValue;
    const ir::ValueId upper = slice_source(value_argument(*negation, "self"), *width / 2, *width);
    const ir::ValueId lower = slice_source(parts[1], 0, *width / 2);
    return upper == lower ? upper : ir::kNoValue;
  }

  // x of x[..., start:end]
  ir::ValueId slice_source(ir::ValueId id, std::int64_t start, std::int64_t end) const {
    const ir::Node* slice = edit_.made_by(id, {"aten.slice.Tensor"});
    if (slice == nullptr) return half_of_split(id, start != 0);
    const ir::ValueId self = value_argument(*slice, "self");
    const std::size_t rank = edit_.type(id).dims.size();
    const auto whole = last_dim(edit_.type(self)).constant();
    const auto stop = int_argument(*slice, "end", std::numeric_limits<std::int64_t>::max());
    const bool right = axis_of(int_argument(*slice, "dim", 0).value_or(99), rank) == rank - 1 &&
                       int_argument(*slice, "start", 0) == start && int_argument(*slice, "step", 1) == 1 && stop &&
                       whole && std::min(*stop, *whole) == end && edit_.has_one_use(id);
    return right ? self : ir::kNoValue;
  }

  // x of x.chunk(2, -1) or x.split(width / 2, -1)
  ir::ValueId half_of_split(ir::ValueId id, bool upper) const {
    const ir::Node* split = edit_.made_by(id, {"aten.chunk.default", "aten.split.Tensor"});
    if (split == nullptr || split->outputs.size() != 1 || split->outputs[0].values.size() != 2) return ir::kNoValue;
    const std::size_t rank = edit_.type(id).dims.size();
    if (axis_of(int_argument(*split, "dim", 0).value_or(99), rank) != rank - 1) return ir::kNoValue;
    if (split->outputs[0].values[upper ? 1 : 0] != id || !edit_.has_one_use(id)) return ir::kNoValue;
    if (edit_.type(split->outputs[0].values[0]).dims != edit_.type(split->outputs[0].values[1]).dims) {
      return ir::kNoValue;
    }
    return value_argument(*split, "self");
  }

  bool fits(const RotaryCall& call, ir::ValueId result) const {
    const ir::TensorType& input = edit_.type(call.input);
    if (input.dims.size() != 4 || edit_.type(result).dims != input.dims || edit_.type(result).dtype != input.dtype) {
      return false;
    }
    if (!takes_dtype(capabilities_, kRotaryTarget, input.dtype)) return false;
    for (const ir::ValueId id : {call.cos, call.sin}) {
      const ir::TensorType& table = edit_.type(id);
      if (table.dtype != input.dtype || table.dims.empty() || table.dims.size() > 4) return false;
      for (std::size_t back = 0; back < table.dims.size(); ++back) {
        const ir::Expr& own = table.dims[table.dims.size() - 1 - back];
        if (own != input.dims[3 - back] && own != ir::Expr(1)) return false;
      }
    }
    return true;
  }

  const GraphEdit& edit_;
  const Capabilities& capabilities_;
};

Result<PassStats> run_fuse_rotary(ir::Graph& graph, PassContext& context) {
  PassStats stats;
  GraphEdit edit(graph, context.weights);
  for (NodeIndex index = 0; index < edit.size(); ++index) {
    RotaryCall call;
    if (!edit.is_alive(index) || !RotaryMatcher(edit, context.capabilities).match(edit.node(index), call)) continue;
    if (edit.facts().is_written(call.input) || edit.facts().is_written(call.cos) || edit.facts().is_written(call.sin)) {
      continue;
    }
    ++stats.changes;
    stats.details.push_back(edit.node(index).name);
    edit.replace_call(index, std::string(kRotaryTarget),
                      {{"input", {call.input}}, {"cos", {call.cos}}, {"sin", {call.sin}}});
    make_row_major(edit, only_result(edit.node(index)));
  }
  return stats;
}

Support applies_fuse_rotary(const Capabilities& capabilities) {
  return needs_own_operators(capabilities, {kRotaryTarget});
}

}  // namespace

const Pass kFuseRotary = {"fuse_rotary", "rotary positions become one node", false, applies_fuse_rotary,
                          run_fuse_rotary};

}  // namespace kpt
