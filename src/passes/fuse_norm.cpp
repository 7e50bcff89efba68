#include "passes/fuse_norm.h"

#include <algorithm>

#include "passes/node_arguments.h"
#include "passes/own_calls.h"
#include "passes/view_types.h"

namespace kpt {
namespace {

struct NormCall {
  ir::ValueId input = ir::kNoValue;
  ir::ValueId weight = ir::kNoValue;
  ir::ValueId bias = ir::kNoValue;
  double epsilon = 0;
  std::string kind;
  NodeIndex first_reader = kNoNode;  // the first of the matched nodes that reads the input
};

// Of a norm that is written out.
constexpr std::size_t kMostNodes = 12;

bool is_type_change(const ir::Node& node) {
  return is_any(node, {"aten.to.dtype", "aten._to_copy.default", "aten.type_as.default"});
}

class NormFusion {
 public:
  NormFusion(ir::Graph& graph, PassContext& context)
      : edit_(graph, context.weights), capabilities_(context.capabilities) {}

  PassStats run() {
    const std::size_t count = edit_.size();
    // From the end: the cast or product that ends a norm is met before what is inside it.
    for (NodeIndex index = count; index-- > 0;) {
      if (!edit_.is_alive(index)) continue;
      NormCall call;
      if (match_layer_norm(index, call)) {
        // Alone, libtorch's layer norm is as good.
        if (find_summand(call, index) != ir::kNoValue) replace(index, call);
      } else if (match_rms(index, call)) {
        replace(index, call);
      }
    }
    std::reverse(stats_.details.begin(), stats_.details.end());
    return std::move(stats_);
  }

 private:
  bool is_row(ir::ValueId id, ir::ValueId input) const {
    const ir::TensorType& type = edit_.type(id);
    const ir::TensorType& of = edit_.type(input);
    return type.dims.size() == 1 && !of.dims.empty() && type.dims[0] == of.dims.back() && is_contiguous(type) &&
           (type.dtype == of.dtype || type.dtype == DType::kFloat32);
  }

  bool is_known_type(ir::ValueId id) const { return takes_dtype(capabilities_, kAddNormTarget, edit_.type(id).dtype); }

  bool match_layer_norm(NodeIndex index, NormCall& call) const {
    const ir::Node& node = edit_.node(index);
    if (!is_any(node, {"aten.layer_norm.default", "aten.native_layer_norm.default"})) return false;
    for (std::size_t place = 1; place < node.outputs.size(); ++place) {
      const ir::ValueId extra = result_at(node, place);
      if (extra != ir::kNoValue && (!edit_.users(extra).empty() || edit_.is_output(extra))) return false;
    }
    const auto shape = ints_argument(node, "normalized_shape");
    const auto epsilon = number_argument(node, "eps", 1e-5);
    if (!shape || shape->size() != 1 || !epsilon) return false;
    call = {value_argument(node, "input"),
            value_argument(node, "weight"),
            value_argument(node, "bias"),
            *epsilon,
            "layer",
            index};
    return fits(call, result_at(node, 0));
  }

  bool fits(const NormCall& call, ir::ValueId result) const {
    if (!edit_.is_tensor(call.input) || !is_known_type(call.input) ||
        edit_.type(result).dtype != edit_.type(call.input).dtype ||
        edit_.type(result).dims != edit_.type(call.input).dims) {
      return false;
    }
    return (call.weight == ir::kNoValue || is_row(call.weight, call.input)) &&
           (call.bias == ir::kNoValue || is_row(call.bias, call.input));
  }

  // What the cast is of; the value itself when it is none. What stands between must have no other use.
  ir::ValueId before_cast(ir::ValueId id) const {
    const NodeIndex made = edit_.producer(id);
    if (made == kNoNode || !is_type_change(edit_.node(made)) || !edit_.has_one_use(id)) return id;
    if (!is_floating(edit_.type(id).dtype)) return id;
    return value_argument(edit_.node(made), "self");
  }

  bool match_rms(NodeIndex index, NormCall& call) const {
    const ir::Node& node = edit_.node(index);
    const ir::ValueId result = only_result(node);
    if (!edit_.is_tensor(result)) return false;
    call.kind = "rms";
    if (node.target == "aten.rms_norm.default") {
      const auto shape = ints_argument(node, "normalized_shape");
      const auto epsilon = number_argument(node, "eps");
      if (!shape || shape->size() != 1 || !epsilon) return false;
      call.input = value_argument(node, "input");
      call.weight = value_argument(node, "weight");
      call.epsilon = *epsilon;
      call.first_reader = index;
      return fits(call, result);
    }
    ir::ValueId product = result;
    if (is_type_change(node)) product = value_argument(node, "self");
    if (product != result && !edit_.has_one_use(product)) return false;
    const ir::Node* scaled = edit_.made_by(product, {"aten.mul.Tensor"});
    if (scaled == nullptr) return false;
    const ir::ValueId a = value_argument(*scaled, "self");
    const ir::ValueId b = value_argument(*scaled, "other");
    if (a == ir::kNoValue || b == ir::kNoValue) return false;
    for (const auto& [weight, normed] : {std::pair(a, b), std::pair(b, a)}) {
      if (edit_.type(weight).dims.size() != 1 || !edit_.has_one_use(normed)) continue;
      if (!edit_.may_read_at(weight, edit_.producer(product), index)) continue;
      call.weight = weight;
      if (match_normed(before_cast(normed), call) && take_uncast_input(call, result)) return true;
    }
    return false;
  }

  // x · rsqrt(mean(x²) + epsilon)
  bool match_normed(ir::ValueId id, NormCall& call) const {
    const ir::Node* product = edit_.made_by(id, {"aten.mul.Tensor"});
    if (product == nullptr || !edit_.has_one_use(id)) return false;
    const ir::ValueId a = value_argument(*product, "self");
    const ir::ValueId b = value_argument(*product, "other");
    for (const auto& [input, factor] : {std::pair(a, b), std::pair(b, a)}) {
      const ir::Node* root = edit_.made_by(factor, {"aten.rsqrt.default"});
      if (root == nullptr || !edit_.has_one_use(factor)) continue;
      const ir::ValueId inside = value_argument(*root, "self");
      const ir::Node* sum = edit_.made_by(inside, {"aten.add.Tensor", "aten.add.Scalar"});
      if (sum == nullptr || !edit_.has_one_use(inside) || !number_argument(*sum, "other")) continue;
      if (number_argument(*sum, "alpha", 1.0) != 1.0) continue;
      const ir::ValueId mean_value = value_argument(*sum, "self");
      const ir::Node* mean = edit_.made_by(mean_value, {"aten.mean.dim"});
      if (mean == nullptr || !edit_.has_one_use(mean_value) || !is_over_last_axis(*mean)) continue;
      const ir::ValueId square_value = value_argument(*mean, "self");
      call.first_reader = edit_.has_one_use(square_value) ? find_square(square_value, input) : kNoNode;
      if (call.first_reader == kNoNode) continue;
      call.input = input;
      call.epsilon = *number_argument(*sum, "other");
      return true;
    }
    return false;
  }

  bool is_over_last_axis(const ir::Node& mean) const {
    const auto axes = ints_argument(mean, "dim");
    const std::size_t rank = edit_.type(value_argument(mean, "self")).dims.size();
    return axes && axes->size() == 1 && rank > 0 && axis_of((*axes)[0], rank) == rank - 1 &&
           bool_argument(mean, "keepdim", false) == true && !dtype_argument(mean, "dtype");
  }

  // Which node reads the input to square it; kNoNode when it is squared nowhere.
  NodeIndex find_square(ir::ValueId id, ir::ValueId input) const {
    const ir::Node* square = edit_.made_by(id, {"aten.pow.Tensor_Scalar", "aten.mul.Tensor"});
    if (square == nullptr) return kNoNode;
    const ir::ValueId base = value_argument(*square, "self");
    const bool squares = square->target == "aten.mul.Tensor" ? value_argument(*square, "other") == base
                                                             : number_argument(*square, "exponent") == 2.0;
    if (squares && base == input) return edit_.producer(id);
    // Some models square in float32 and scale what was there before the cast.
    return squares && before_cast(base) == input ? edit_.producer(base) : kNoNode;
  }

  // A 16-bit model computes its norms in float32 and casts back: the operator does so by itself.
  bool take_uncast_input(NormCall& call, ir::ValueId result) const {
    if (edit_.type(call.input).dtype != edit_.type(result).dtype) {
      const NodeIndex made = edit_.producer(call.input);
      if (made == kNoNode || !is_type_change(edit_.node(made)) || edit_.type(call.input).dtype != DType::kFloat32)
        return false;
      call.first_reader = made;
      call.input = value_argument(edit_.node(made), "self");
    }
    return fits(call, result);
  }

  // The other operand when the input is a sum that only the norm and nodes behind it use. kNoValue otherwise.
  ir::ValueId find_summand(const NormCall& call, NodeIndex index) const {
    const NodeIndex made = edit_.producer(call.input);
    if (made == kNoNode || edit_.is_output(call.input) || edit_.facts().is_written(call.input)) return ir::kNoValue;
    const ir::Node& sum = edit_.node(made);
    const ir::ValueId other = other_summand(edit_, sum, value_argument(sum, "self"));
    if (other == ir::kNoValue) return ir::kNoValue;
    // The sum comes out of the norm's node, so whoever reads it must stand behind.
    for (const NodeIndex user : edit_.users(call.input)) {
      const bool part_of_norm = user <= index && user >= call.first_reader && is_inside(user, index);
      if (user < index && !part_of_norm) return ir::kNoValue;
    }
    for (const ir::ValueId id : {value_argument(sum, "self"), other}) {
      if (!edit_.may_read_at(id, made, index)) return ir::kNoValue;
    }
    return other;
  }

  // Whether a reader in front of the norm's last node only serves that node. A cast's result is read twice inside the
  // norm; all ways must end in its last node.
  bool is_inside(NodeIndex user, NodeIndex index) const {
    std::vector<NodeIndex> inside = {user};
    for (std::size_t place = 0; place < inside.size(); ++place) {
      if (inside[place] == index) continue;
      const ir::ValueId result = only_result(edit_.node(inside[place]));
      const bool serves = inside[place] < index && !edit_.users(result).empty() && !edit_.is_output(result);
      if (!serves || inside.size() > kMostNodes) return false;
      for (const NodeIndex next : edit_.users(result)) {
        if (std::ranges::find(inside, next) == inside.end()) inside.push_back(next);
      }
    }
    return true;
  }

  void replace(NodeIndex index, NormCall call) {
    if (!edit_.may_read_at(call.input, call.first_reader, index)) return;
    const std::string name = edit_.node(index).name;
    const ir::ValueId residual = find_summand(call, index);
    const ir::ValueId old_sum = call.input;
    const ir::ValueId old_normed = result_at(edit_.node(index), 0);
    const auto was_row_major = [&](ir::ValueId id) {
      return is_contiguous(edit_.type(id)) || edit_.facts().is_written(id);
    };
    std::string detail = name + " is " + call.kind;
    const ir::TensorType type = contiguous_type(edit_.type(old_sum).dtype, edit_.type(old_sum).dims);
    const ir::ValueId normed = edit_.add_value(name, type);
    const ir::ValueId sum = edit_.add_value(name + "_sum", type);
    NodeIndex addition = kNoNode;
    if (residual != ir::kNoValue) {
      addition = edit_.producer(old_sum);
      detail += " of " + edit_.node(addition).name;
      call.input = value_argument(edit_.node(addition), "self");
    }
    ir::Node node = make_node(name, std::string(kAddNormTarget),
                              {{"input", {call.input}},
                               {"residual", value_or_none(residual)},
                               {"weight", value_or_none(call.weight)},
                               {"bias", value_or_none(call.bias)},
                               {"epsilon", {call.epsilon}},
                               {"kind", {call.kind}}},
                              normed);
    node.outputs.push_back({false, {sum}});
    edit_.insert_before(index, std::move(node));
    edit_.replace_uses(old_normed, normed);
    if (!was_row_major(old_normed)) refresh_views(edit_, normed);
    edit_.erase_unused(index);
    if (addition != kNoNode) {
      edit_.replace_uses(old_sum, sum);
      if (!was_row_major(old_sum)) refresh_views(edit_, sum);
      edit_.erase_unused(addition);
    }
    ++stats_.changes;
    stats_.details.push_back(std::move(detail));
  }

  GraphEdit edit_;
  const Capabilities& capabilities_;
  PassStats stats_;
};

Result<PassStats> run_fuse_norm(ir::Graph& graph, PassContext& context) { return NormFusion(graph, context).run(); }

Support applies_fuse_norm(const Capabilities& capabilities) {
  return needs_own_operators(capabilities, {kAddNormTarget});
}

}  // namespace

const Pass kFuseNorm = {"fuse_norm",
                        "norms take the addition in front of them in; written-out RMS norms become one node", false,
                        applies_fuse_norm, run_fuse_norm};

}  // namespace kpt
