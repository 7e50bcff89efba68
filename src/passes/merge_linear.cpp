#include "passes/merge_linear.h"

#include <algorithm>

#include <fmt/format.h>

#include "passes/node_arguments.h"
#include "passes/own_calls.h"
#include "passes/view_types.h"
#include "passes/weight_values.h"

namespace kpt {
namespace {

class Merging {
 public:
  Merging(ir::Graph& graph, PassContext& context, bool gates)
      : edit_(graph, context.weights), capabilities_(context.capabilities), gates_(gates) {}

  Result<PassStats> run() {
    for (NodeIndex index = 0; gates_ && index < edit_.size(); ++index) {
      if (!edit_.is_alive(index) || edit_.node(index).target != "aten.mul.Tensor") continue;
      if (!try_halves(index)) KPT_RETURN_IF_ERROR(try_gate(index));
    }
    for (const std::vector<NodeIndex>& group : find_groups()) KPT_RETURN_IF_ERROR(merge(group));
    return std::move(stats_);
  }

 private:
  bool is_plain_linear(NodeIndex index) const {
    if (index == kNoNode || !edit_.is_alive(index) || edit_.node(index).target != kLinearTarget) return false;
    const LinearCall call = read_linear(edit_.node(index));
    const ir::ValueId result = only_result(edit_.node(index));
    const Tensor* const weight = edit_.constant(call.weight);
    const Tensor* const bias = edit_.constant(call.bias);
    if (weight == nullptr || weight->dims().size() != 2 || edit_.type(result).dims.empty()) return false;
    const bool fits = call.bias == ir::kNoValue ||
                      (bias != nullptr && bias->dtype() == weight->dtype() && bias->dims() == Dims{weight->dims()[0]});
    return fits && call.residual == ir::kNoValue && !edit_.is_output(result) && !edit_.facts().is_written(result);
  }

  // One weight [N1 + N2 + …, K] and, if any has one, one bias; zeros where one has none.
  Result<LinearCall> concatenate(const std::vector<NodeIndex>& linears, const std::string& name) {
    std::vector<Tensor> weights;
    std::vector<Tensor> biases;
    LinearCall merged;
    bool any_bias = false;
    for (const NodeIndex index : linears) {
      const LinearCall call = read_linear(edit_.node(index));
      merged.input = call.input;
      weights.push_back(*edit_.constant(call.weight));
      any_bias = any_bias || call.bias != ir::kNoValue;
      const Dims rows = {weights.back().dims()[0]};
      if (call.bias != ir::kNoValue) {
        biases.push_back(*edit_.constant(call.bias));
      } else {
        const std::vector<double> zeros(static_cast<std::size_t>(rows[0]), 0.0);
        KPT_ASSIGN_OR_RETURN(Tensor bias, make_weight(weights.back().dtype(), rows, zeros));
        biases.push_back(std::move(bias));
      }
    }
    KPT_ASSIGN_OR_RETURN(Tensor weight, concatenate_rows(weights));
    merged.weight = edit_.add_weight(name + "_weight", std::move(weight));
    if (any_bias) {
      KPT_ASSIGN_OR_RETURN(Tensor bias, concatenate_rows(biases));
      merged.bias = edit_.add_weight(name + "_bias", std::move(bias));
    }
    return merged;
  }

  bool goes_together(NodeIndex a, NodeIndex b) const {
    const LinearCall first = read_linear(edit_.node(a));
    const LinearCall second = read_linear(edit_.node(b));
    const Tensor& x = *edit_.constant(first.weight);
    const Tensor& y = *edit_.constant(second.weight);
    return first.input == second.input && x.dtype() == y.dtype() && x.dims()[1] == y.dims()[1] &&
           edit_.type(only_result(edit_.node(a))).dtype == edit_.type(only_result(edit_.node(b))).dtype &&
           edit_.may_read_at(first.input, a, b);
  }

  // activation(first half) · second half of one value that was split in two.
  bool try_halves(NodeIndex index) {
    const ir::ValueId a = value_argument(edit_.node(index), "self");
    const ir::ValueId b = value_argument(edit_.node(index), "other");
    if (a == ir::kNoValue || b == ir::kNoValue || a == b) return false;
    for (const auto& [curve, up] : {std::pair(a, b), std::pair(b, a)}) {
      const NodeIndex made = edit_.producer(curve);
      const ir::Activation activation = made == kNoNode ? ir::Activation::kNone : activation_of(edit_.node(made));
      if (activation == ir::Activation::kNone || !edit_.has_one_use(curve)) continue;
      const ir::ValueId gate = value_argument(edit_.node(made), "self");
      const ir::Node* split = edit_.made_by(gate, {"aten.chunk.default", "aten.split.Tensor"});
      if (split == nullptr || edit_.producer(up) != edit_.producer(gate)) continue;
      const ir::ValueId source = value_argument(*split, "self");
      const std::size_t rank = edit_.type(source).dims.size();
      const bool halves = split->outputs.size() == 1 && split->outputs[0].values == std::vector{gate, up} &&
                          axis_of(int_argument(*split, "dim", 0).value_or(99), rank) == rank - 1 &&
                          edit_.type(gate).dims == edit_.type(up).dims && edit_.has_one_use(gate) &&
                          edit_.has_one_use(up) && !edit_.facts().is_written(source);
      const ir::TensorType& type = edit_.type(source);
      if (!halves || !takes_dtype(capabilities_, kGluTarget, type.dtype)) continue;
      ++stats_.changes;
      stats_.details.push_back(fmt::format("{} by {}", edit_.node(index).name, ir::activation_name(activation)));
      edit_.replace_call(index, std::string(kGluTarget),
                         {{"input", {source}}, {"activation", {std::string(ir::activation_name(activation))}}});
      make_row_major(edit_, only_result(edit_.node(index)));
      return true;
    }
    return false;
  }

  Status try_gate(NodeIndex index) {
    const ir::ValueId a = value_argument(edit_.node(index), "self");
    const ir::ValueId b = value_argument(edit_.node(index), "other");
    if (a == ir::kNoValue || b == ir::kNoValue || a == b || !edit_.has_one_use(a) || !edit_.has_one_use(b)) return {};
    NodeIndex gate = edit_.producer(a);
    NodeIndex up = edit_.producer(b);
    if (!is_plain_linear(gate) || !is_plain_linear(up)) return {};
    if (!takes_dtype(capabilities_, kGluTarget, edit_.type(a).dtype)) return {};
    if (read_linear(edit_.node(gate)).activation == ir::Activation::kNone) std::swap(gate, up);
    const ir::Activation activation = read_linear(edit_.node(gate)).activation;
    if (activation == ir::Activation::kNone || read_linear(edit_.node(up)).activation != ir::Activation::kNone ||
        !goes_together(std::min(gate, up), std::max(gate, up)) || edit_.type(a).dims != edit_.type(b).dims ||
        !edit_.may_read_at(read_linear(edit_.node(gate)).input, std::min(gate, up), index)) {
      return {};
    }
    const std::string name = edit_.node(index).name;
    KPT_ASSIGN_OR_RETURN(const LinearCall call, concatenate({gate, up}, name + "_gate_up"));
    std::vector<ir::Expr> dims = edit_.type(a).dims;
    dims.back() = edit_.type(call.weight).dims[0];
    const ir::ValueId product = edit_.add_value(name + "_gate_up", contiguous_type(edit_.type(a).dtype, dims));
    edit_.insert_before(
        index, make_node(edit_.graph().at(product).name, std::string(kLinearTarget), linear_arguments(call), product));
    ++stats_.changes;
    stats_.details.push_back(
        fmt::format("{} · {} by {}", edit_.node(gate).name, edit_.node(up).name, ir::activation_name(activation)));
    edit_.replace_call(index, std::string(kGluTarget),
                       {{"input", {product}}, {"activation", {std::string(ir::activation_name(activation))}}});
    make_row_major(edit_, only_result(edit_.node(index)));
    return {};
  }

  // Products of one input, as long as no other product stands between: keys and values of all layers of a decoder are
  // made from one input too, but not at one time.
  std::vector<std::vector<NodeIndex>> find_groups() const {
    std::vector<std::vector<NodeIndex>> groups;
    for (NodeIndex index = 0; index < edit_.size(); ++index) {
      if (!edit_.is_alive(index) || edit_.node(index).target != kLinearTarget) continue;
      const bool plain = is_plain_linear(index) && read_linear(edit_.node(index)).activation == ir::Activation::kNone;
      if (plain && !groups.empty() && !groups.back().empty() && goes_together(groups.back()[0], index)) {
        groups.back().push_back(index);
      } else {
        groups.emplace_back();
        if (plain) groups.back().push_back(index);
      }
    }
    std::erase_if(groups, [](const auto& group) { return group.size() < 2; });
    return groups;
  }

  Status merge(const std::vector<NodeIndex>& group) {
    const NodeIndex first = group[0];
    std::string name = edit_.node(first).name + "_merged";
    KPT_ASSIGN_OR_RETURN(const LinearCall call, concatenate(group, name));
    const ir::TensorType& type = edit_.type(only_result(edit_.node(first)));
    std::vector<ir::Expr> dims = type.dims;
    dims.back() = edit_.type(call.weight).dims[0];
    const ir::TensorType merged_type = contiguous_type(type.dtype, dims);
    const ir::ValueId product = edit_.add_value(name, merged_type);
    edit_.insert_before(
        first, make_node(edit_.graph().at(product).name, std::string(kLinearTarget), linear_arguments(call), product));
    std::string detail;
    std::int64_t start = 0;
    for (const NodeIndex index : group) {
      const ir::Node node = edit_.node(index);
      const ir::ValueId result = only_result(node);
      const std::int64_t end = start + edit_.constant(read_linear(node).weight)->dims()[0];
      ir::TensorType slice_type = merged_type;
      slice_type.dims.back() = end - start;
      slice_type.storage_offset = start;
      const ir::ValueId slice = edit_.add_value(node.name + "_part", slice_type);
      const auto axis = static_cast<std::int64_t>(dims.size()) - 1;
      edit_.insert_before(first,
                          make_node(edit_.graph().at(slice).name, "aten.slice.Tensor",
                                    {{"self", {product}}, {"dim", {axis}}, {"start", {start}}, {"end", {end}}}, slice));
      edit_.replace_uses(result, slice);
      edit_.erase_unused(index);
      refresh_views(edit_, slice);
      detail += (detail.empty() ? "" : " + ") + node.name;
      start = end;
    }
    ++stats_.changes;
    stats_.details.push_back(std::move(detail));
    return {};
  }

  GraphEdit edit_;
  const Capabilities& capabilities_;
  bool gates_;
  PassStats stats_;
};

Result<PassStats> run_merge_linear(ir::Graph& graph, PassContext& context) {
  const bool gates = needs_own_operators(context.capabilities, {kGluTarget}).supported;
  return Merging(graph, context, gates).run();
}

Support applies_merge_linear(const Capabilities& capabilities) {
  return needs_own_operators(capabilities, {kLinearTarget});
}

}  // namespace

const Pass kMergeLinear = {"merge_linear", "products of one input (query, key and value; gate and up) become one",
                           false, applies_merge_linear, run_merge_linear};

}  // namespace kpt
