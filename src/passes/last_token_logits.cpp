#include "passes/last_token_logits.h"

#include "passes/node_arguments.h"
#include "passes/own_calls.h"

namespace kpt {
namespace {

// A projection whose only use is to be an output of the model.
bool is_projection(const GraphEdit& edit, NodeIndex index) {
  const ir::Node& node = edit.node(index);
  if (!is_any(node, {"aten.linear.default", kLinearTarget}) && !is_quantized_linear(node.target)) return false;
  const ir::ValueId result = only_result(node);
  const ir::ValueId input = value_argument(node, "input");
  if (!edit.is_tensor(result) || !edit.is_output(result) || !edit.users(result).empty()) return false;
  return edit.is_tensor(input) && edit.type(input).dims.size() == 3 && edit.type(result).dims.size() == 3 &&
         edit.type(input).dims[1] != ir::Expr(1) && is_absent(node, "residual");
}

Result<PassStats> run_last_token_logits(ir::Graph& graph, PassContext& context) {
  PassStats stats;
  GraphEdit edit(graph, context.weights);
  const std::size_t count = edit.size();
  for (NodeIndex index = 0; index < count; ++index) {
    if (!edit.is_alive(index) || !is_projection(edit, index)) continue;
    const std::string name = edit.node(index).name;
    const ir::ValueId input = value_argument(edit.node(index), "input");
    const ir::ValueId result = only_result(edit.node(index));
    ir::TensorType last = edit.type(input);
    const ir::Expr before = ir::Expr::make(ir::ExprOp::kAdd, {last.dims[1], ir::Expr(-1)});
    last.storage_offset = ir::Expr::make(
        ir::ExprOp::kAdd, {last.storage_offset, ir::Expr::make(ir::ExprOp::kMul, {before, last.strides[1]})});
    last.dims[1] = 1;
    const ir::ValueId token = edit.add_value(name + "_last", last);
    edit.insert_before(index, make_node(edit.graph().at(token).name, "aten.slice.Tensor",
                                        {{"self", {input}},
                                         {"dim", {std::int64_t{1}}},
                                         {"start", {std::int64_t{-1}}},
                                         {"end", {std::numeric_limits<std::int64_t>::max()}}},
                                        token));
    std::vector<ir::Expr> dims = edit.type(result).dims;
    dims[1] = 1;
    edit.set_type(result, contiguous_type(edit.type(result).dtype, std::move(dims)));
    edit.replace_argument(index, "input", {token});
    ++stats.changes;
    stats.details.push_back(name);
  }
  return stats;
}

Support applies_last_token_logits(const Capabilities& /*capabilities*/) { return {}; }

}  // namespace

const Pass kLastTokenLogits = {"last_token_logits", "the final projection is computed for the last position only",
                               false, applies_last_token_logits, run_last_token_logits};

}  // namespace kpt
