#include "passes/narrow_results.h"

#include <algorithm>

#include "passes/node_arguments.h"
#include "passes/own_calls.h"
#include "passes/weight_values.h"

namespace kpt {
namespace {

constexpr std::string_view kMoves[] = {
    "aten.view.default",       "aten.reshape.default",   "aten._unsafe_view.default",
    "aten.transpose.int",      "aten.permute.default",   "aten.slice.Tensor",
    "aten.select.int",         "aten.unsqueeze.default", "aten.squeeze.dim",
    "aten.squeeze.dims",       "aten.expand.default",    "aten.clone.default",
    "aten.contiguous.default", "aten.split.Tensor",      "aten.split_with_sizes.default",
    "aten.chunk.default",
};

enum class Role : std::uint8_t {
  kOther,
  kProduct,    // takes its input in either type and gives its result in either
  kAttention,  // query, key, value and result are of one type
  kCarrier,    // first argument and results are of one type
};

class Narrowing {
 public:
  Narrowing(ir::Graph& graph, PassContext& context) : edit_(graph, context.weights), context_(context) {
    for (const ir::Node& node : edit_.graph().nodes) roles_.push_back(role_of(node));
  }

  Result<PassStats> run() {
    begin();
    while (take_back()) {
    }
    for (NodeIndex index = 0; index < roles_.size(); ++index) KPT_RETURN_IF_ERROR(apply(index));
    return std::move(stats_);
  }

 private:
  Role role_of(const ir::Node& node) const {
    if (is_kept_precise(context_.kept_precise, node.name)) return Role::kOther;
    if (is_any(node, {kLinearFp8Target, kLinearFp8E5M2Target, kLinearWeightInt8Target, kLinearInt4Target})) {
      return Role::kProduct;
    }
    if (node.target == kLinearTarget) {
      const ir::ValueId weight = value_argument(node, "weight");
      return edit_.is_tensor(weight) && edit_.type(weight).dtype == DType::kBFloat16 ? Role::kProduct : Role::kOther;
    }
    if (node.target == kAttentionTarget) {
      const ir::ValueId mask = value_argument(node, "mask");
      // Sums with a mask of float32 would leave bfloat16's range: the least float32 is minus infinity there.
      return mask == ir::kNoValue || edit_.type(mask).dtype == DType::kBool ? Role::kAttention : Role::kOther;
    }
    return only_moves_elements(node.target) || is_any(node, {kGluTarget, kRotaryTarget}) ? Role::kCarrier
                                                                                         : Role::kOther;
  }

  bool is_wide(ir::ValueId id) const { return edit_.is_tensor(id) && edit_.type(id).dtype == DType::kFloat32; }
  // Is bfloat16, or may become it.
  bool is_narrow(ir::ValueId id) const {
    return edit_.is_tensor(id) && (edit_.type(id).dtype == DType::kBFloat16 || narrow_[ir::index_of(id)]);
  }

  // Every float32 result that may be one; take_back() strikes out those whose neighbours cannot.
  void begin() {
    narrow_.assign(edit_.graph().values.size(), false);
    for (NodeIndex index = 0; index < roles_.size(); ++index) {
      const ir::Node& node = edit_.node(index);
      if (roles_[index] == Role::kOther || value_argument(node, "residual") != ir::kNoValue) continue;
      for_each_result(node, [&](ir::ValueId id) { narrow_[ir::index_of(id)] = is_wide(id) && !edit_.is_output(id); });
    }
  }

  template <typename Visit>
  static void for_each_result(const ir::Node& node, Visit visit) {
    for (const ir::Output& output : node.outputs) {
      for (const ir::ValueId id : output.values) {
        if (id != ir::kNoValue) visit(id);
      }
    }
  }

  // The arguments that a node of this role takes in bfloat16.
  static std::vector<std::string_view> open_arguments(const ir::Node& node, Role role) {
    if (role == Role::kProduct) return {"input"};
    if (role == Role::kAttention) return {"query", "key", "value"};
    if (role == Role::kCarrier && !node.arguments.empty()) return {node.arguments[0].name};
    return {};
  }

  bool strike(ir::ValueId id) {
    if (id == ir::kNoValue || !narrow_[ir::index_of(id)]) return false;
    narrow_[ir::index_of(id)] = false;
    return true;
  }

  // One round over all nodes; whether it struck anything out.
  bool take_back() {
    bool changed = false;
    for (NodeIndex index = 0; index < roles_.size(); ++index) {
      const ir::Node& node = edit_.node(index);
      const std::vector<std::string_view> open = open_arguments(node, roles_[index]);
      for (const ir::NamedArgument& argument : node.arguments) {
        if (std::ranges::find(open, argument.name) != open.end()) continue;
        ir::for_each_value(argument.value, [&](ir::ValueId id) { changed = strike(id) || changed; });
      }
      if (roles_[index] == Role::kAttention || roles_[index] == Role::kCarrier) changed = tie(node, open) || changed;
    }
    return changed;
  }

  // All of them or none.
  bool tie(const ir::Node& node, const std::vector<std::string_view>& open) {
    bool all = !open.empty();
    for (const std::string_view name : open) all = all && is_narrow(value_argument(node, name));
    for_each_result(node, [&](ir::ValueId id) { all = all && is_narrow(id); });
    if (all) return false;
    bool changed = false;
    for (const std::string_view name : open) changed = strike(value_argument(node, name)) || changed;
    for_each_result(node, [&](ir::ValueId id) { changed = strike(id) || changed; });
    return changed;
  }

  Status apply(NodeIndex index) {
    bool changed = false;
    for_each_result(edit_.node(index), [&](ir::ValueId id) {
      if (!narrow_[ir::index_of(id)]) return;
      ir::TensorType type = edit_.type(id);
      type.dtype = DType::kBFloat16;
      edit_.set_type(id, std::move(type));
      changed = true;
    });
    if (!changed || roles_[index] == Role::kCarrier) return {};
    ++stats_.changes;
    stats_.details.push_back(edit_.node(index).name);
    return roles_[index] == Role::kProduct ? narrow_bias(index) : Status();
  }

  // Of the result's type, so that the product can add it.
  Status narrow_bias(NodeIndex index) {
    const ir::ValueId bias = value_argument(edit_.node(index), "bias");
    const Tensor* tensor = bias == ir::kNoValue ? nullptr : edit_.constant(bias);
    if (tensor == nullptr || tensor->dtype() != DType::kFloat32) return {};
    KPT_ASSIGN_OR_RETURN(Tensor small, round_to_bfloat16(*tensor));
    const ir::ValueId id = edit_.add_weight(edit_.graph().at(bias).name + "_bf16", std::move(small));
    edit_.replace_argument(index, "bias", {id});
    return {};
  }

  GraphEdit edit_;
  PassContext& context_;
  std::vector<Role> roles_;   // by node
  std::vector<bool> narrow_;  // by value
  PassStats stats_;
};

Support applies_narrow_results(const Capabilities& capabilities) {
  if (!has_matrix_dtype(capabilities, DType::kBFloat16)) {
    return {false, "the target multiplies bfloat16 matrices no faster than float32 ones"};
  }
  if (!capabilities.products_give_either_type) {
    return {false, "the target's products give results of their input's type"};
  }
  return needs_own_operators(capabilities, {kLinearTarget, kAttentionTarget});
}

Result<PassStats> run_narrow_results(ir::Graph& graph, PassContext& context) { return Narrowing(graph, context).run(); }

}  // namespace

bool only_moves_elements(std::string_view target) { return std::ranges::find(kMoves, target) != std::end(kMoves); }

const Pass kNarrowResults = {"narrow_results",
                             "what goes from one bfloat16 product to the next becomes bfloat16, attention too", false,
                             applies_narrow_results, run_narrow_results};

}  // namespace kpt
