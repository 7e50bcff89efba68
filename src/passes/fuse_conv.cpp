#include "passes/fuse_conv.h"

#include <algorithm>

#include "passes/node_arguments.h"
#include "passes/own_calls.h"
#include "passes/view_types.h"

namespace kpt {
namespace {

struct ConvCall {
  ir::ValueId input = ir::kNoValue;
  ir::ValueId weight = ir::kNoValue;
  ir::ValueId bias = ir::kNoValue;
  ir::ValueId residual = ir::kNoValue;
  std::vector<std::int64_t> stride;
  std::vector<std::int64_t> padding;  // two, or four: above, left, below, right
  std::vector<std::int64_t> dilation;
  std::int64_t groups = 1;
  ir::Activation activation = ir::Activation::kNone;
};

class ConvFusion {
 public:
  ConvFusion(ir::Graph& graph, PassContext& context)
      : edit_(graph, context.weights), capabilities_(context.capabilities) {}

  PassStats run() {
    for (NodeIndex index = 0; index < edit_.size(); ++index) {
      ConvCall call;
      if (!edit_.is_alive(index) || !match(edit_.node(index), call)) continue;
      const NodeIndex padding = take_padding(index, call);
      set_call(index, call);
      if (padding != kNoNode) edit_.erase_unused(padding);
      ++stats_.changes;
      fuse_behind(index, call);
    }
    return std::move(stats_);
  }

 private:
  static bool read_pair(const ir::Node& node, std::string_view name, std::int64_t fallback,
                        std::vector<std::int64_t>& pair) {
    const auto read = ints_argument(node, name, std::vector{fallback});
    if (!read || read->empty() || read->size() > 2) return false;
    pair = {read->front(), read->back()};
    return true;
  }

  bool match(const ir::Node& node, ConvCall& call) const {
    const bool general = node.target == "aten.convolution.default" && bool_argument(node, "transposed") == false;
    if (node.target != "aten.conv2d.default" && !general) return false;
    call.input = value_argument(node, "input");
    call.weight = value_argument(node, "weight");
    call.bias = value_argument(node, "bias");
    const auto groups = int_argument(node, "groups", 1);
    if (!groups || !read_pair(node, "stride", 1, call.stride) || !read_pair(node, "padding", 0, call.padding) ||
        !read_pair(node, "dilation", 1, call.dilation)) {
      return false;
    }
    call.groups = *groups;
    const Tensor* weight = edit_.constant(call.weight);
    const ir::ValueId result = only_result(node);
    if (weight == nullptr || weight->dims().size() != 4 || edit_.type(result).dims.size() != 4) return false;
    if (edit_.type(call.input).dims.size() != 4 || edit_.type(call.input).dtype != weight->dtype()) return false;
    if (!takes_dtype(capabilities_, kConv2dTarget, weight->dtype())) return false;
    if (edit_.type(result).dtype != weight->dtype()) return false;
    // All channels together, or each by itself; groups between stay with libtorch.
    if (call.groups != 1 && (call.groups != weight->dims()[0] || weight->dims()[1] != 1)) return false;
    return call.bias == ir::kNoValue ? is_absent(node, "bias") : edit_.type(call.bias).dtype == weight->dtype();
  }

  // Zeros that a node puts around the input become the convolution's own padding. The node that is not needed then.
  NodeIndex take_padding(NodeIndex index, ConvCall& call) {
    const ir::Node* pad = edit_.made_by(call.input, {"aten.pad.default", "aten.constant_pad_nd.default"});
    if (pad == nullptr || !edit_.has_one_use(call.input)) return kNoNode;
    const NodeIndex place = edit_.producer(call.input);
    const ir::ValueId inner = value_argument(*pad, "self");
    const auto amounts = ints_argument(*pad, "pad");  // left, right, above, below
    const bool zeros = is_absent(*pad, "value") || number_argument(*pad, "value") == 0.0;
    if (!amounts || amounts->size() != 4 || std::ranges::any_of(*amounts, [](auto each) { return each < 0; }) ||
        string_argument(*pad, "mode", "constant") != "constant" || !zeros || edit_.type(inner).dims.size() != 4 ||
        !edit_.may_read_at(inner, place, index)) {
      return kNoNode;
    }
    const std::vector<std::int64_t> own = call.padding;
    call.padding = {own[0] + (*amounts)[2], own[1] + (*amounts)[0], own[0] + (*amounts)[3], own[1] + (*amounts)[1]};
    if (call.padding[0] == call.padding[2] && call.padding[1] == call.padding[3]) call.padding.resize(2);
    call.input = inner;
    stats_.details.push_back(edit_.node(place).name + " into " + edit_.node(index).name);
    return place;
  }

  void set_call(NodeIndex place, const ConvCall& call) {
    edit_.replace_call(place, std::string(kConv2dTarget),
                       {{"input", {call.input}},
                        {"weight", {call.weight}},
                        {"bias", value_or_none(call.bias)},
                        {"residual", value_or_none(call.residual)},
                        {"stride", ints(call.stride)},
                        {"padding", ints(call.padding)},
                        {"dilation", ints(call.dilation)},
                        {"groups", {call.groups}},
                        {"activation", {std::string(ir::activation_name(call.activation))}}});
    // The recorded layout decides that of the result, and there are two of them.
    const ir::ValueId result = only_result(edit_.node(place));
    const ir::TensorType& type = edit_.type(result);
    if (is_contiguous(type) || type.strides == channels_last_strides(type.dims)) return;
    edit_.set_type(result, contiguous_type(type.dtype, type.dims));
    refresh_views(edit_, result);
  }

  void fuse_behind(NodeIndex place, ConvCall call) {
    std::string detail = edit_.node(place).name;
    std::size_t fused = 0;
    while (call.activation == ir::Activation::kNone) {
      const ir::ValueId result = only_result(edit_.node(place));
      const NodeIndex user = edit_.only_user(result);
      if (user == kNoNode || edit_.facts().is_written(result)) break;
      const ir::Node& next = edit_.node(user);
      const ir::Activation activation = activation_of(next);
      const ir::ValueId summand = call.residual == ir::kNoValue ? other_summand(edit_, next, result) : ir::kNoValue;
      if (activation == ir::Activation::kNone && summand == ir::kNoValue) break;
      if (edit_.type(only_result(next)).dims != edit_.type(result).dims) break;
      bool movable = edit_.may_read_at(call.input, place, user);
      if (call.residual != ir::kNoValue) movable = movable && edit_.may_read_at(call.residual, place, user);
      if (!movable) break;
      detail += " + " + next.name;
      call.activation = activation;
      if (summand != ir::kNoValue) call.residual = summand;
      set_call(user, call);
      place = user;
      ++fused;
    }
    stats_.changes += fused;
    if (fused > 0) stats_.details.push_back(std::move(detail));
  }

  GraphEdit edit_;
  const Capabilities& capabilities_;
  PassStats stats_;
};

Result<PassStats> run_fuse_conv(ir::Graph& graph, PassContext& context) { return ConvFusion(graph, context).run(); }

Support applies_fuse_conv(const Capabilities& capabilities) {
  return needs_own_operators(capabilities, {kConv2dTarget});
}

}  // namespace

const Pass kFuseConv = {"fuse_conv", "convolutions take padding, bias, residual and activation in", false,
                        applies_fuse_conv, run_fuse_conv};

}  // namespace kpt
