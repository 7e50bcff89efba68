#include "passes/share_masks.h"

#include <algorithm>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <utility>

#include "passes/node_arguments.h"
#include "passes/own_calls.h"
#include "passes/weight_values.h"

namespace kpt {
namespace {

class MaskSharing {
 public:
  MaskSharing(ir::Graph& graph, PassContext& context) : edit_(graph, context.weights) {}

  Result<PassStats> run() {
    const std::size_t count = edit_.size();
    for (NodeIndex index = 0; index < count; ++index) {
      if (!edit_.is_alive(index) || edit_.node(index).target != kAttentionTarget) continue;
      const ir::ValueId mask = value_argument(edit_.node(index), "mask");
      if (!edit_.is_tensor(mask) || edit_.type(mask).dtype != DType::kBool || edit_.facts().is_written(mask)) continue;
      KPT_RETURN_IF_ERROR(share(index, mask));
    }
    return std::move(stats_);
  }

 private:
  DType dtype_of(NodeIndex attention) const { return edit_.type(value_argument(edit_.node(attention), "query")).dtype; }

  // Whether another attention of the type takes the mask too.
  bool has_company(NodeIndex index, ir::ValueId mask) const {
    return std::ranges::any_of(edit_.users(mask), [&](NodeIndex user) {
      return user != index && edit_.node(user).target == kAttentionTarget && dtype_of(user) == dtype_of(index);
    });
  }

  Status share(NodeIndex index, ir::ValueId mask) {
    const DType dtype = dtype_of(index);
    auto known = added_.find({ir::index_of(mask), dtype});
    if (known == added_.end()) {
      if (!has_company(index, mask)) return {};
      KPT_ASSIGN_OR_RETURN(const ir::ValueId numbers, add_numbers(index, mask, dtype));
      known = added_.emplace(std::pair(ir::index_of(mask), dtype), numbers).first;
    }
    edit_.replace_argument(index, "mask", {known->second});
    ++stats_.changes;
    stats_.details.push_back(edit_.node(index).name + " takes " + edit_.graph().at(known->second).name);
    return {};
  }

  Result<ir::ValueId> add_numbers(NodeIndex before, ir::ValueId mask, DType dtype) {
    KPT_ASSIGN_OR_RETURN(const ir::ValueId zero, number("zero", dtype, 0));
    KPT_ASSIGN_OR_RETURN(const ir::ValueId never, number("never", dtype, -std::numeric_limits<double>::infinity()));
    const ir::ValueId result =
        edit_.add_value(edit_.graph().at(mask).name + "_to_add", contiguous_type(dtype, edit_.type(mask).dims));
    edit_.insert_before(before, make_node(edit_.graph().at(result).name, "aten.where.self",
                                          {{"condition", {mask}}, {"self", {zero}}, {"other", {never}}}, result));
    return result;
  }

  // A constant of no axes; one for all masks.
  Result<ir::ValueId> number(const char* what, DType dtype, double value) {
    const std::string name = std::string("mask_") + what + "_" + std::string(to_string(dtype));
    const auto known = numbers_.find(name);
    if (known != numbers_.end()) return known->second;
    KPT_ASSIGN_OR_RETURN(Tensor tensor, make_weight(dtype, {}, std::span(&value, 1)));
    const ir::ValueId id = edit_.add_weight(name, std::move(tensor));
    numbers_.emplace(name, id);
    return id;
  }

  GraphEdit edit_;
  PassStats stats_;
  std::map<std::pair<std::uint32_t, DType>, ir::ValueId> added_;  // by mask and type
  std::map<std::string, ir::ValueId> numbers_;
};

Support applies_share_masks(const Capabilities& capabilities) {
  if (const Support own = needs_own_operators(capabilities, {kAttentionTarget}); !own.supported) return own;
  if (!capabilities.attention_adds_masks) {
    return {false, "the target's attention takes truth values as they are"};
  }
  return {};
}

Result<PassStats> run_share_masks(ir::Graph& graph, PassContext& context) { return MaskSharing(graph, context).run(); }

}  // namespace

const Pass kShareMasks = {"share_masks",
                          "truth values that several attentions take as their mask become numbers to add, once", false,
                          applies_share_masks, run_share_masks};

}  // namespace kpt
