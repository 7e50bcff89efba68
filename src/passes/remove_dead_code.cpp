#include "passes/remove_dead_code.h"

#include "passes/graph_edit.h"
#include "passes/node_arguments.h"

namespace kpt {
namespace {

bool is_cast(const ir::Node& node) {
  return is_any(node,
                {"aten.to.dtype", "aten.to.device", "aten.to.dtype_layout", "aten.to.other", "aten.type_as.default"});
}

bool is_view(const ir::Node& node) {
  return is_any(node, {"aten.view.default", "aten.reshape.default", "aten._unsafe_view.default", "aten.expand.default",
                       "aten.expand_as.default", "aten.slice.Tensor", "aten.permute.default", "aten.squeeze.dim",
                       "aten.squeeze.default", "aten.flatten.using_ints", "aten.alias.default", "aten.detach.default"});
}

// Row-major whatever the layout of its arguments, which for a caller's input may be another than the exporter saw.
bool is_surely_contiguous(const GraphEdit& edit, ir::ValueId id) {
  const NodeIndex index = edit.producer(id);
  if (index == kNoNode || !is_contiguous(edit.type(id))) return false;
  const ir::Node& node = edit.node(index);
  if (node.target.starts_with("kpt.")) return true;
  if (is_any(node, {"aten.view.default", "aten._unsafe_view.default"})) {
    return is_surely_contiguous(edit, value_argument(node, "self"));
  }
  return is_any(node, {"aten.linear.default", "aten.addmm.default", "aten.mm.default", "aten.bmm.default",
                       "aten.embedding.default", "aten.layer_norm.default"}) ||
         (node.target == "aten.contiguous.default" && find_argument(node, "memory_format") == nullptr);
}

bool has_scalar(const ir::Node& node, double number) {
  return number_argument(node, "other") == number && number_argument(node, "alpha", 1.0).has_value();
}

bool is_all_true(const GraphEdit& edit, ir::ValueId id) {
  if (!edit.is_tensor(id) || edit.type(id).dtype != DType::kBool || !edit.type(id).dims.empty()) return false;
  if (edit.made_by(id, {"aten.new_ones.default", "aten.ones.default"}) != nullptr) return true;
  if (const ir::Node* made = edit.made_by(id, {"aten.full.default"})) {
    return bool_argument(*made, "fill_value").value_or(false);
  }
  return edit.constant_number(id) == 1.0;
}

struct NoOp {
  ir::ValueId same = ir::kNoValue;  // what the result equals
  bool aliases = false;             // the result is that very tensor, so that writes are seen alike
};

bool is_arithmetic_no_op(const GraphEdit& edit, const ir::Node& node, ir::ValueId result) {
  // -0 + 0 is 0: for floats only the subtraction is exact.
  const bool whole = is_integral(edit.type(result).dtype);
  if (is_any(node, {"aten.sub.Tensor", "aten.sub.Scalar"})) return has_scalar(node, 0);
  if (is_any(node, {"aten.add.Tensor", "aten.add.Scalar"})) return whole && has_scalar(node, 0);
  return is_any(node, {"aten.mul.Tensor", "aten.mul.Scalar", "aten.div.Tensor", "aten.div.Scalar"}) &&
         has_scalar(node, 1);
}

NoOp find_no_op(const GraphEdit& edit, const ir::Node& node, ir::ValueId result) {
  const ir::ValueId self = value_argument(node, "self");
  if (is_any(node, {"aten.dropout.default", "aten.dropout_.default"})) {
    const ir::ValueId input = node.target == "aten.dropout.default" ? value_argument(node, "input") : self;
    return bool_argument(node, "train") == false ? NoOp{input, true} : NoOp{};
  }
  if (is_any(node, {"aten.__and__.Tensor", "aten.bitwise_and.Tensor", "aten.logical_and.default"})) {
    const ir::ValueId other = value_argument(node, "other");
    // Of integers it takes the last bit.
    if (edit.type(self).dtype != DType::kBool || edit.type(other).dtype != DType::kBool) return {};
    if (is_all_true(edit, self)) return {other, false};
    if (is_all_true(edit, other)) return {self, false};
    return {};
  }
  if (!edit.is_tensor(self)) return {};
  const bool same_layout = edit.type(self).strides == edit.type(result).strides &&
                           edit.type(self).storage_offset == edit.type(result).storage_offset;
  if (is_cast(node)) {
    const bool copies = bool_argument(node, "copy", false).value_or(true);
    return same_layout && !copies && find_argument(node, "memory_format") == nullptr ? NoOp{self, true} : NoOp{};
  }
  if (is_view(node)) return same_layout ? NoOp{self, true} : NoOp{};
  if (node.target == "aten.contiguous.default") {
    const bool row_major = find_argument(node, "memory_format") == nullptr && is_surely_contiguous(edit, self);
    return row_major ? NoOp{self, true} : NoOp{};
  }
  if (is_any(node, {"aten.clone.default", "aten._to_copy.default"})) {
    return same_layout && is_surely_contiguous(edit, self) ? NoOp{self, false} : NoOp{};
  }
  return is_arithmetic_no_op(edit, node, result) ? NoOp{self, false} : NoOp{};
}

Result<PassStats> run_remove_dead_code(ir::Graph& graph, PassContext& context) {
  PassStats stats;
  {
    GraphEdit edit(graph, context.weights);
    for (NodeIndex index = 0; index < edit.size(); ++index) {
      const ir::ValueId result = only_result(edit.node(index));
      if (!edit.is_alive(index) || !edit.is_tensor(result)) continue;
      const NoOp found = find_no_op(edit, edit.node(index), result);
      if (!edit.is_tensor(found.same) || edit.type(found.same).dims != edit.type(result).dims ||
          edit.type(found.same).dtype != edit.type(result).dtype) {
        continue;
      }
      const bool written = edit.facts().is_written(found.same) || edit.facts().is_written(result);
      // Two outputs of the model that are one tensor, or an output that is an input, would be copied at the end.
      if ((!found.aliases && written) || edit.is_output(result)) continue;
      stats.details.push_back(edit.node(index).name);
      ++stats.changes;
      edit.replace_uses(result, found.same);
      // By its name it writes; what hands its argument on says that it does not, and may go.
      if (edit.node(index).target == "aten.dropout_.default") {
        edit.replace_call(index, "aten.alias.default", {{"self", {found.same}}});
      }
      edit.erase_unused(index);
    }
  }
  const std::size_t removed = remove_unused(graph, context.weights);
  if (removed > 0) stats.details.push_back("unused nodes: " + std::to_string(removed));
  stats.changes += removed;
  return stats;
}

Support applies_remove_dead_code(const Capabilities& /*capabilities*/) { return {}; }

}  // namespace

const Pass kRemoveDeadCode = {"remove_dead_code", "nodes that change nothing or that nobody uses are taken out", true,
                              applies_remove_dead_code, run_remove_dead_code};

}  // namespace kpt
