#include "passes/assign_bf16.h"

#include "passes/node_arguments.h"
#include "passes/own_calls.h"
#include "passes/weight_values.h"

namespace kpt {
namespace {

Result<PassStats> run_assign_bf16(ir::Graph& graph, PassContext& context) {
  PassStats stats;
  GraphEdit edit(graph, context.weights);
  std::map<std::uint32_t, ir::ValueId> rounded;  // a weight of several nodes is rounded once
  for (NodeIndex index = 0; index < edit.size(); ++index) {
    if (!is_any(edit.node(index), {kLinearTarget, kConv2dTarget})) continue;
    const std::string name = edit.node(index).name;
    const ir::ValueId weight = value_argument(edit.node(index), "weight");
    const Tensor* tensor = edit.constant(weight);
    if (tensor == nullptr || tensor->dtype() != DType::kFloat32) continue;
    // Each channel by itself is no product of matrices: it is computed in float32 either way.
    if (edit.node(index).target == kConv2dTarget && int_argument(edit.node(index), "groups", 1) != 1) continue;
    if (is_kept_precise(context.kept_precise, name)) {
      stats.details.push_back(name + " stays float32");
      continue;
    }
    auto known = rounded.find(ir::index_of(weight));
    if (known == rounded.end()) {
      KPT_ASSIGN_OR_RETURN(Tensor small, round_to_bfloat16(*tensor));
      const ir::ValueId id = edit.add_weight(edit.graph().at(weight).name + "_bf16", std::move(small));
      known = rounded.emplace(ir::index_of(weight), id).first;
    }
    edit.replace_argument(index, "weight", {known->second});
    ++stats.changes;
    stats.details.push_back(name);
  }
  return stats;
}

Support applies_assign_bf16(const Capabilities& capabilities) {
  if (!has_matrix_dtype(capabilities, DType::kBFloat16)) {
    return {false, "the target multiplies bfloat16 matrices no faster than float32 ones"};
  }
  return needs_own_operators(capabilities, {kLinearTarget});
}

}  // namespace

const Pass kAssignBf16 = {"assign_bf16", "weights of products and convolutions become bfloat16", false,
                          applies_assign_bf16, run_assign_bf16};

}  // namespace kpt
