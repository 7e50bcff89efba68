#include "passes/remove_in_place.h"

#include <algorithm>

#include "passes/graph_edit.h"
#include "passes/node_arguments.h"

namespace kpt {
namespace {

// Without the underscore and with the same arguments they compute the same: see target_of_copy().
constexpr std::string_view kOperators[] = {
    "abs_",      "add_",        "addcmul_", "bitwise_and_", "bitwise_or_",  "clamp_",      "clamp_max_",   "clamp_min_",
    "cos_",      "div_",        "dropout_", "elu_",         "exp_",         "gelu_",       "hardsigmoid_", "hardswish_",
    "hardtanh_", "leaky_relu_", "log_",     "logical_and_", "logical_not_", "logical_or_", "masked_fill_", "mish_",
    "mul_",      "neg_",        "pow_",     "reciprocal_",  "relu6_",       "relu_",       "rsqrt_",       "selu_",
    "sigmoid_",  "silu_",       "sin_",     "sqrt_",        "sub_",         "tanh_",
};

bool has_one_type(const GraphEdit& edit, const ir::Node& node) {
  const DType own = edit.type(only_result(node)).dtype;
  // They give truth values; in place, those of the tensor's own type.
  if (operator_name(node.target).starts_with("logical_") && own != DType::kBool) return false;
  bool same = true;
  for (const ir::NamedArgument& argument : node.arguments) {
    if (argument.name == "mask") continue;
    ir::for_each_value(argument.value,
                       [&](ir::ValueId id) { same = same && (!edit.is_tensor(id) || edit.type(id).dtype == own); });
    // A number with a fraction would make a float of an integer tensor.
    same = same && (is_floating(own) || !std::holds_alternative<double>(argument.value.value));
  }
  return same;
}

bool is_private(const GraphEdit& edit, NodeIndex index) {
  const ir::Node& node = edit.node(index);
  const ir::ValueId* id = node.arguments.empty() ? nullptr : node.arguments[0].value.value_id();
  if (id == nullptr || edit.producer(*id) == kNoNode || edit.is_output(*id)) return false;
  if (!gives_fresh_memory(edit.node(edit.producer(*id)))) return false;
  for (const NodeIndex user : edit.users(*id)) {
    if (user == index) continue;
    // A reader in front is no harm; one behind would see what was not written, and a view could be read behind.
    if (user > index || !gives_fresh_memory(edit.node(user))) return false;
  }
  return std::count(edit.users(*id).begin(), edit.users(*id).end(), index) == 1;
}

// Without the underscore. Some are overloads of another name.
std::string target_of_copy(std::string target) {
  if (target == "aten.pow_.Scalar") return "aten.pow.Tensor_Scalar";
  if (target == "aten.pow_.Tensor") return "aten.pow.Tensor_Tensor";
  return target.erase(target.find("_.", 5), 1);
}

Result<PassStats> run_remove_in_place(ir::Graph& graph, PassContext& context) {
  PassStats stats;
  GraphEdit edit(graph, context.weights);
  for (NodeIndex index = 0; index < edit.size(); ++index) {
    const ir::Node& node = edit.node(index);
    if (!is_in_place(node) || only_result(node) == ir::kNoValue) continue;
    const std::string_view name = operator_name(node.target);
    if (std::find(std::begin(kOperators), std::end(kOperators), name) == std::end(kOperators)) continue;
    if (!has_one_type(edit, node) || !is_private(edit, index)) continue;
    // The argument has another name without the underscore; where a wrong call has that name already, it stays.
    if (name == "dropout_" && (node.arguments[0].name != "self" || find_argument(node, "input") != nullptr)) continue;
    ++stats.changes;
    stats.details.push_back(node.name);
    std::vector<ir::NamedArgument> arguments = node.arguments;
    if (name == "dropout_") arguments[0].name = "input";
    edit.replace_call(index, target_of_copy(node.target), std::move(arguments));
  }
  return stats;
}

Support applies_remove_in_place(const Capabilities& /*capabilities*/) { return {}; }

}  // namespace

const Pass kRemoveInPlace = {"remove_in_place", "operators that write their argument become ones that do not", true,
                             applies_remove_in_place, run_remove_in_place};

}  // namespace kpt
