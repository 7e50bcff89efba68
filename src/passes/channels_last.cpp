#include "passes/channels_last.h"

#include <algorithm>

#include "passes/node_arguments.h"
#include "passes/own_calls.h"
#include "passes/view_types.h"

namespace kpt {
namespace {

// Take their layout from their input, and give the same numbers in any.
bool follows_its_input(const ir::Node& node) {
  return is_any(node, {"aten.max_pool2d.default", "aten.avg_pool2d.default", "aten.relu.default", "aten.relu6.default",
                       "aten.silu.default", "aten.sigmoid.default", "aten.hardtanh.default", "aten.hardswish.default",
                       "aten.hardsigmoid.default", "aten.gelu.default", "aten.add.Tensor", "aten.mul.Tensor",
                       "aten.pad.default", "aten.constant_pad_nd.default"});
}

// Read an image in any layout and give something that is none. A view may become a reshape for it.
bool takes_any_layout(const ir::Node& node) {
  return is_any(node, {kConv2dTarget, "aten.adaptive_avg_pool2d.default", "aten.mean.dim", "aten.flatten.using_ints",
                       "aten.view.default", "aten.reshape.default", "aten.permute.default", "aten.transpose.int",
                       "aten.sym_size.int"});
}

class Layout {
 public:
  Layout(ir::Graph& graph, PassContext& context) : edit_(graph, context.weights), chosen_(graph.values.size(), false) {}

  PassStats run() {
    const std::size_t count = edit_.size();
    for (NodeIndex index = 0; index < count; ++index) choose(index);
    for (std::uint32_t value = 0; value < chosen_.size(); ++value) {
      if (chosen_[value]) put(static_cast<ir::ValueId>(value));
    }
    return std::move(stats_);
  }

 private:
  bool is_image(ir::ValueId id) const {
    return edit_.is_tensor(id) && edit_.type(id).dims.size() == 4 && !edit_.facts().is_written(id);
  }

  void choose(NodeIndex index) {
    const ir::Node& node = edit_.node(index);
    const ir::ValueId result = only_result(node);
    if (!is_image(result) || !is_contiguous(edit_.type(result))) return;
    // One channel, or images of one pixel: both layouts are the same or nothing is gained.
    if (constant_dim(edit_.type(result), 1).value_or(0) <= 1) return;
    bool fits = node.target == kConv2dTarget;
    if (follows_its_input(node)) {
      fits = true;
      for (const ir::NamedArgument& argument : node.arguments) {
        ir::for_each_value(argument.value, [&](ir::ValueId id) {
          if (!edit_.is_tensor(id)) return;
          const bool same = edit_.type(id).dims == edit_.type(result).dims ||
                            node.target.find("pool") != std::string::npos ||
                            node.target.find("pad") != std::string::npos;
          fits = fits && same && ir::index_of(id) < chosen_.size() && chosen_[ir::index_of(id)];
        });
      }
    }
    chosen_[ir::index_of(result)] = fits;
  }

  bool is_agnostic(NodeIndex user) const {
    const ir::Node& node = edit_.node(user);
    const ir::ValueId result = only_result(node);
    if (node.target == "aten.squeeze.dim") {  // images of one row become lines, which whoever turns them may take
      const auto turns = [&](NodeIndex next) {
        return is_any(edit_.node(next), {"aten.permute.default", "aten.transpose.int"});
      };
      const std::vector<ir::Expr>& dims = edit_.type(value_argument(node, "self")).dims;
      const auto axis = axis_of(int_argument(node, "dim").value_or(99), dims.size());
      if (!axis || dims[*axis] != ir::Expr(1)) return false;
      return !edit_.is_output(result) && std::ranges::all_of(edit_.users(result), turns);
    }
    if (result != ir::kNoValue && ir::index_of(result) < chosen_.size() && chosen_[ir::index_of(result)]) return true;
    return takes_any_layout(node);
  }

  // Changes the recorded strides, and gives back the old layout to whoever needs it.
  void put(ir::ValueId id) {
    ir::TensorType type = edit_.type(id);
    const ir::TensorType old = type;
    type.strides = channels_last_strides(type.dims);
    if (type.strides == old.strides) return;
    edit_.set_type(id, type);
    ++stats_.changes;
    stats_.details.push_back(edit_.graph().at(id).name);
    std::vector<NodeIndex> others;
    for (const NodeIndex user : edit_.users(id)) {
      if (!is_agnostic(user)) others.push_back(user);
    }
    if (!others.empty() || edit_.is_output(id)) give_back(id, old, others);
    refresh_views(edit_, id);
  }

  void give_back(ir::ValueId id, const ir::TensorType& old, const std::vector<NodeIndex>& others) {
    const ir::ValueId copy = edit_.add_value(edit_.graph().at(id).name + "_rows", old);
    edit_.insert_behind(edit_.producer(id),
                        make_node(edit_.graph().at(copy).name, "aten.contiguous.default", {{"self", {id}}}, copy));
    for (const NodeIndex user : others) edit_.replace_uses_in(user, id, copy);
    edit_.replace_outputs(id, copy);
  }

  GraphEdit edit_;
  std::vector<bool> chosen_;  // by value
  PassStats stats_;
};

Result<PassStats> run_channels_last(ir::Graph& graph, PassContext& context) { return Layout(graph, context).run(); }

Support applies_channels_last(const Capabilities& capabilities) {
  return needs_own_operators(capabilities, {kConv2dTarget});
}

}  // namespace

const Pass kChannelsLast = {"channels_last", "images between convolutions lie channels-last", false,
                            applies_channels_last, run_channels_last};

}  // namespace kpt
