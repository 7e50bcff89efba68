#include "passes/fuse_attention.h"

#include <fmt/format.h>

#include "passes/attention_match.h"
#include "passes/node_arguments.h"
#include "passes/own_calls.h"
#include "passes/view_types.h"

namespace kpt {
namespace {

class AttentionFusion {
 public:
  AttentionFusion(ir::Graph& graph, PassContext& context)
      : edit_(graph, context.weights), capabilities_(context.capabilities) {}

  PassStats run() {
    const std::size_t count = edit_.size();
    for (NodeIndex index = 0; index < count; ++index) {
      if (!edit_.is_alive(index)) continue;
      NodeIndex end = index;
      std::optional<AttentionCall> call = match_fused_attention(edit_, edit_.node(index));
      if (!call) call = match_written_attention(edit_, index, end);
      if (call && complete(*call, end)) replace(*call, end);
    }
    return std::move(stats_);
  }

 private:
  // Looks behind repeated heads and at the mask; false when the operator does not cover the case.
  bool complete(AttentionCall& call, NodeIndex end) const {
    const ir::ValueId key = without_repeated_heads(edit_, call.key);
    const ir::ValueId value = without_repeated_heads(edit_, call.value);
    const auto heads_of = [&](ir::ValueId id) { return constant_dim(edit_.type(id), 1); };
    if (!call.key_transposed && heads_of(key) && heads_of(key) == heads_of(value)) {
      call.key = key;
      call.value = value;
    }
    const DType dtype = edit_.type(call.query).dtype;
    if (!takes_dtype(capabilities_, kAttentionTarget, dtype)) return false;
    for (const ir::ValueId id : {call.key, call.value}) {
      if (edit_.type(id).dtype != dtype || edit_.type(id).dims.size() != 4) return false;
    }
    if (edit_.type(only_result(edit_.node(end))).dtype != dtype) return false;
    if (!has_one_batch(call, only_result(edit_.node(end)))) return false;
    if (edit_.facts().is_written(only_result(edit_.node(end)))) return false;  // its views may become copies
    const auto heads = constant_dim(edit_.type(call.query), 1);
    const auto groups = constant_dim(edit_.type(call.value), 1);
    if (!heads || !groups || *groups <= 0 || *heads % *groups != 0) return false;
    if (edit_.type(call.key).dims[1] != edit_.type(call.value).dims[1]) return false;
    if (!complete_mask(call, dtype)) return false;
    // All of them are read where the last node stands.
    for (const ir::ValueId id : {call.query, call.key, call.value, call.mask, call.second_mask}) {
      if (id == ir::kNoValue) continue;
      for (const NodeIndex user : edit_.users(id)) {
        if (user < end && !edit_.may_read_at(id, user, end)) return false;
      }
    }
    return true;
  }

  // aten repeats a batch of one, also that of the query for keys or a mask of more; ours does not.
  bool has_one_batch(const AttentionCall& call, ir::ValueId result) const {
    const std::vector<ir::Expr>& query = edit_.type(call.query).dims;
    return edit_.type(call.key).dims[0] == query[0] && edit_.type(call.value).dims[0] == query[0] &&
           edit_.type(result).dims == query;
  }

  bool complete_mask(AttentionCall& call, DType dtype) const {
    if (call.mask == ir::kNoValue) return true;
    if (call.second_mask != ir::kNoValue) {
      const ir::TensorType& a = edit_.type(call.mask);
      const ir::TensorType& b = edit_.type(call.second_mask);
      bool fits = a.dtype == dtype && b.dtype == dtype && a.dims.size() == 4 && b.dims.size() == 4;
      for (std::size_t axis = 0; fits && axis < 4; ++axis) {
        fits = a.dims[axis] == b.dims[axis] || a.dims[axis] == ir::Expr(1) || b.dims[axis] == ir::Expr(1);
      }
      return fits && !call.causal;
    }
    const ir::TensorType& type = edit_.type(call.mask);
    if ((type.dtype != DType::kBool && type.dtype != dtype) || type.dims.size() > 4 || call.causal) return false;
    const MaskKind kind = classify_mask(edit_, call.mask);
    if (kind == MaskKind::kAny) return true;
    call.causal = kind == MaskKind::kCausal;
    call.mask = ir::kNoValue;
    return true;
  }

  void replace(const AttentionCall& call, NodeIndex end) {
    const std::string name = edit_.node(end).name;
    const ir::ValueId result = only_result(edit_.node(end));
    const ir::TensorType query = edit_.type(call.query);
    const ir::TensorType type =
        contiguous_type(query.dtype, {query.dims[0], query.dims[2], query.dims[1], query.dims[3]});
    ir::ValueId key = call.key;
    if (call.key_transposed) {
      ir::TensorType turned = edit_.type(key);
      std::swap(turned.dims[2], turned.dims[3]);
      std::swap(turned.strides[2], turned.strides[3]);
      key = add_transpose(end, call.key, 2, 3, turned, name + "_key");
    }
    const ir::ValueId mask = add_masks(call, end, name);
    const ir::ValueId attention = edit_.add_value(name + "_heads_last", type);
    edit_.insert_before(end, make_node(edit_.graph().at(attention).name, std::string(kAttentionTarget),
                                       {{"query", {call.query}},
                                        {"key", {key}},
                                        {"value", {call.value}},
                                        {"mask", value_or_none(mask)},
                                        {"scale", {call.scale}},
                                        {"causal", {call.causal}}},
                                       attention));
    // The heads go back to where they were; who turns them again takes ours directly.
    ir::TensorType turned = type;
    std::swap(turned.dims[1], turned.dims[2]);
    std::swap(turned.strides[1], turned.strides[2]);
    edit_.set_type(result, turned);
    edit_.replace_call(end, "aten.transpose.int",
                       {{"self", {attention}}, {"dim0", {std::int64_t{1}}}, {"dim1", {std::int64_t{2}}}});
    take_directly(result, attention);
    ++stats_.changes;
    stats_.details.push_back(fmt::format("{}: {}{}", name,
                                         call.mask != ir::kNoValue ? "mask" : (call.causal ? "causal" : "no mask"),
                                         edit_.type(call.value).dims[1] == query.dims[1] ? "" : ", grouped queries"));
    edit_.erase_unused(end);
    refresh_views(edit_, attention);
  }

  ir::ValueId add_masks(const AttentionCall& call, NodeIndex before, const std::string& name) {
    if (call.second_mask == ir::kNoValue) return call.mask;
    std::vector<ir::Expr> dims = edit_.type(call.mask).dims;
    for (std::size_t axis = 0; axis < 4; ++axis) {
      if (dims[axis] == ir::Expr(1)) dims[axis] = edit_.type(call.second_mask).dims[axis];
    }
    const ir::ValueId sum = edit_.add_value(name + "_mask", contiguous_type(edit_.type(call.mask).dtype, dims));
    edit_.insert_before(before, make_node(edit_.graph().at(sum).name, "aten.add.Tensor",
                                          {{"self", {call.mask}}, {"other", {call.second_mask}}}, sum));
    return sum;
  }

  ir::ValueId add_transpose(NodeIndex before, ir::ValueId id, std::int64_t dim0, std::int64_t dim1,
                            const ir::TensorType& type, const std::string& name) {
    const ir::ValueId result = edit_.add_value(name, type);
    edit_.insert_before(before, make_node(edit_.graph().at(result).name, "aten.transpose.int",
                                          {{"self", {id}}, {"dim0", {dim0}}, {"dim1", {dim1}}}, result));
    return result;
  }

  void take_directly(ir::ValueId heads_first, ir::ValueId heads_last) {
    const std::vector<NodeIndex> users = edit_.users(heads_first);
    for (const NodeIndex user : users) {
      const ir::Node& node = edit_.node(user);
      if (through_copy(user, heads_last)) continue;
      const bool turns =
          (node.target == "aten.transpose.int" && axis_of(int_argument(node, "dim0").value_or(9), 4) == 1U &&
           axis_of(int_argument(node, "dim1").value_or(9), 4) == 2U) ||
          (node.target == "aten.permute.default" &&
           ints_argument(node, "dims") == std::vector<std::int64_t>{0, 2, 1, 3});
      if (!turns || edit_.is_output(only_result(node))) continue;
      const ir::ValueId turned = only_result(node);
      edit_.replace_uses(turned, heads_last);
      edit_.erase_unused(user);
    }
  }

  // run_decompositions() writes permute [2, 0, 1, 3] → clone → permute [1, 2, 0, 3]: a copy in another layout.
  bool through_copy(NodeIndex user, ir::ValueId heads_last) {
    const ir::Node& first = edit_.node(user);
    if (first.target != "aten.permute.default" ||
        ints_argument(first, "dims") != std::vector<std::int64_t>{2, 0, 1, 3}) {
      return false;
    }
    const NodeIndex copy = edit_.only_user(only_result(first));
    if (copy == kNoNode || edit_.node(copy).target != "aten.clone.default") return false;
    const NodeIndex second = edit_.only_user(only_result(edit_.node(copy)));
    if (second == kNoNode || edit_.node(second).target != "aten.permute.default" ||
        ints_argument(edit_.node(second), "dims") != std::vector<std::int64_t>{1, 2, 0, 3}) {
      return false;
    }
    // The same elements as before the detour, so the transpose that we made serves.
    const ir::ValueId detour = only_result(edit_.node(second));
    const ir::ValueId heads_first = value_argument(first, "self");
    if (!edit_.is_tensor(detour) || edit_.is_output(detour) || edit_.facts().is_written(detour)) return false;
    edit_.replace_uses(detour, heads_first);
    edit_.erase_unused(second);
    take_directly(heads_first, heads_last);
    return true;
  }

  GraphEdit edit_;
  const Capabilities& capabilities_;
  PassStats stats_;
};

Result<PassStats> run_fuse_attention(ir::Graph& graph, PassContext& context) {
  return AttentionFusion(graph, context).run();
}

Support applies_fuse_attention(const Capabilities& capabilities) {
  return needs_own_operators(capabilities, {kAttentionTarget});
}

}  // namespace

const Pass kFuseAttention = {"fuse_attention", "attention, fused or written out, becomes one node", false,
                             applies_fuse_attention, run_fuse_attention};

}  // namespace kpt
