#include "passes/fuse_conv.h"

#include <algorithm>
#include <array>
#include <map>

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
  bool is_line = false;  // one-dimensional; the numbers are those of an image of one row
};

std::vector<ir::NamedArgument> conv_arguments(const ConvCall& call) {
  return {{"input", {call.input}},
          {"weight", {call.weight}},
          {"bias", value_or_none(call.bias)},
          {"residual", value_or_none(call.residual)},
          {"stride", ints(call.stride)},
          {"padding", ints(call.padding)},
          {"dilation", ints(call.dilation)},
          {"groups", {call.groups}},
          {"activation", {std::string(ir::activation_name(call.activation))}}};
}

// [N, C, L] as [N, C, 1, L], without a copy.
ir::TensorType image_type(const ir::TensorType& line) {
  ir::TensorType image = line;
  image.dims.insert(image.dims.begin() + 2, ir::Expr(1));
  image.strides.insert(image.strides.begin() + 2, ir::Expr::make(ir::ExprOp::kMul, {line.dims[2], line.strides[2]}));
  return image;
}

class ConvFusion {
 public:
  ConvFusion(ir::Graph& graph, PassContext& context)
      : edit_(graph, context.weights), capabilities_(context.capabilities) {}

  Result<PassStats> run() {
    for (NodeIndex index = 0; index < edit_.size(); ++index) {
      ConvCall call;
      if (!edit_.is_alive(index) || !match(edit_.node(index), call)) continue;
      const NodeIndex padding = call.is_line ? kNoNode : take_padding(index, call);
      set_call(index, call);
      if (padding != kNoNode) edit_.erase_unused(padding);
      ++stats_.changes;
      const NodeIndex last = fuse_behind(index, call);
      if (call.is_line) KPT_RETURN_IF_ERROR(make_image(last, call));
    }
    return std::move(stats_);
  }

 private:
  // Of a line for its only row: `fallback`, where it says nothing.
  static bool read_pair(const ir::Node& node, std::string_view name, std::int64_t fallback, bool is_line,
                        std::vector<std::int64_t>& pair) {
    const auto read = ints_argument(node, name, std::vector{fallback});
    if (!read || read->empty() || read->size() > (is_line ? 1 : 2)) return false;
    pair = {is_line ? fallback : read->front(), read->back()};
    return true;
  }

  bool match(const ir::Node& node, ConvCall& call) const {
    const bool general = node.target == "aten.convolution.default" && bool_argument(node, "transposed") == false;
    if (!is_any(node, {"aten.conv1d.default", "aten.conv2d.default"}) && !general) return false;
    call.input = value_argument(node, "input");
    call.weight = value_argument(node, "weight");
    call.bias = value_argument(node, "bias");
    const auto groups = int_argument(node, "groups", 1);
    const Tensor* weight = edit_.constant(call.weight);
    const ir::ValueId result = only_result(node);
    const std::size_t rank = weight == nullptr ? 0 : weight->dims().size();
    // aten.convolution is for lines and images.
    if (rank != 3 && rank != 4) return false;
    if (node.target == (rank == 3 ? "aten.conv2d.default" : "aten.conv1d.default")) return false;
    if (edit_.type(result).dims.size() != rank || std::ranges::find(weight->dims(), 0) != weight->dims().end()) {
      return false;
    }
    if (edit_.type(call.input).dims.size() != rank || edit_.type(call.input).dtype != weight->dtype()) return false;
    call.is_line = rank == 3;
    if (!groups || !read_pair(node, "stride", 1, call.is_line, call.stride) ||
        !read_pair(node, "padding", 0, call.is_line, call.padding) ||
        !read_pair(node, "dilation", 1, call.is_line, call.dilation)) {
      return false;
    }
    call.groups = *groups;
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
    edit_.replace_call(place, std::string(kConv2dTarget), conv_arguments(call));
    // The recorded layout decides that of the result, and there are two of them.
    const ir::ValueId result = only_result(edit_.node(place));
    const ir::TensorType& type = edit_.type(result);
    if (type.strides != channels_last_strides(type.dims)) make_row_major(edit_, result);
  }

  // The node that is the whole call now.
  NodeIndex fuse_behind(NodeIndex place, ConvCall& call) {
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
      if (!may_move(place, user, call)) break;
      detail += " + " + next.name;
      call.activation = activation;
      if (summand != ir::kNoValue) call.residual = summand;
      set_call(user, call);
      place = user;
      ++fused;
    }
    stats_.changes += fused;
    if (fused > 0) stats_.details.push_back(std::move(detail));
    return place;
  }

  bool may_move(NodeIndex from, NodeIndex to, const ConvCall& call) const {
    return std::ranges::all_of(std::array{call.input, call.bias, call.residual},
                               [&](ir::ValueId id) { return id == ir::kNoValue || edit_.may_read_at(id, from, to); });
  }

  // The weight of lines as that of images; calls with one weight share it.
  Result<ir::ValueId> make_filters(ir::ValueId weight, const std::string& name) {
    if (const auto made = filters_.find(weight); made != filters_.end()) return made->second;
    KPT_ASSIGN_OR_RETURN(const Tensor rows, edit_.constant(weight)->is_contiguous()
                                                ? *edit_.constant(weight)
                                                : edit_.constant(weight)->contiguous_copy());
    const Dims dims = {rows.dims()[0], rows.dims()[1], 1, rows.dims()[2]};
    const Dims strides = {rows.strides()[0], rows.strides()[1], rows.strides()[1], rows.strides()[2]};
    KPT_ASSIGN_OR_RETURN(const Tensor filters,
                         Tensor::from_buffer(rows.buffer(), rows.dtype(), dims, strides, rows.offset()));
    return filters_[weight] = edit_.add_weight(name + "_filters", filters);
  }

  // The call at `place`, of lines, becomes one of images with one row between views.
  Status make_image(NodeIndex place, ConvCall& call) {
    const std::string name = edit_.node(place).name;
    const ir::TensorType line = edit_.type(only_result(edit_.node(place)));
    KPT_ASSIGN_OR_RETURN(call.weight, make_filters(call.weight, name));
    call.input = as_image(call.input, place);
    if (call.residual != ir::kNoValue) call.residual = as_image(call.residual, place);
    const ir::ValueId image = edit_.add_value(
        name + "_image", contiguous_type(line.dtype, image_type(contiguous_type(line.dtype, line.dims)).dims));
    edit_.insert_before(
        place, make_node(edit_.graph().at(image).name, std::string(kConv2dTarget), conv_arguments(call), image));
    edit_.replace_call(place, "aten.squeeze.dim", {{"self", {image}}, {"dim", {std::int64_t{2}}}});
    return {};
  }

  // What an earlier call gave as lines was an image.
  ir::ValueId as_image(ir::ValueId line, NodeIndex before) {
    const ir::Node* made = edit_.made_by(line, {"aten.squeeze.dim"});
    if (made != nullptr && int_argument(*made, "dim") == 2) {
      const ir::ValueId image = value_argument(*made, "self");
      if (edit_.type(image).dims.size() == 4 && edit_.type(image).dims[2] == ir::Expr(1)) return image;
    }
    const ir::ValueId image = edit_.add_value(edit_.graph().at(line).name + "_image", image_type(edit_.type(line)));
    edit_.insert_before(before, make_node(edit_.graph().at(image).name, "aten.unsqueeze.default",
                                          {{"self", {line}}, {"dim", {std::int64_t{2}}}}, image));
    return image;
  }

  GraphEdit edit_;
  const Capabilities& capabilities_;
  std::map<ir::ValueId, ir::ValueId> filters_;  // by weight of lines
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
