#include "passes/fuse_linear.h"

#include "passes/node_arguments.h"
#include "passes/own_calls.h"
#include "passes/view_types.h"
#include "passes/weight_values.h"

namespace kpt {
namespace {

// A constant matrix as kpt.linear wants it, [N, K].
struct Matrix {
  ir::ValueId value = ir::kNoValue;
  bool transpose = false;  // the constant is [K, N]
};

class LinearFusion {
 public:
  LinearFusion(ir::Graph& graph, PassContext& context)
      : edit_(graph, context.weights),
        capabilities_(context.capabilities),
        takes_residual_(context.capabilities.product_takes_residual) {}

  Result<PassStats> run() {
    for (NodeIndex index = 0; index < edit_.size(); ++index) {
      if (!edit_.is_alive(index)) continue;
      LinearCall call;
      NodeIndex place = index;
      std::string detail = edit_.node(index).name;
      if (edit_.node(index).target == kLinearTarget) {
        call = read_linear(edit_.node(index));
        if (!edit_.is_tensor(call.input) || !edit_.is_tensor(call.weight)) continue;
      } else {
        KPT_ASSIGN_OR_RETURN(call, match_product(index));
        if (call.input == ir::kNoValue) continue;
        place = leave_views(index, call);
        set_call(place, call);
        ++stats_.changes;
      }
      fuse_behind(place, call, detail);
    }
    return std::move(stats_);
  }

 private:
  void set_call(NodeIndex place, const LinearCall& call) {
    edit_.replace_call(place, std::string(kLinearTarget), linear_arguments(call));
    make_row_major(edit_, only_result(edit_.node(place)));
  }

  // An empty call when the node is no such product.
  Result<LinearCall> match_product(NodeIndex index) {
    const ir::Node node = edit_.node(index);
    LinearCall call;
    Matrix matrix;
    if (node.target == "aten.linear.default") {
      matrix.value = value_argument(node, "weight");
      call.input = value_argument(node, "input");
      call.bias = value_argument(node, "bias");
    } else if (node.target == "aten.addmm.default") {
      if (number_argument(node, "alpha", 1.0) != 1.0 || number_argument(node, "beta", 1.0) != 1.0) return LinearCall{};
      matrix = find_matrix(value_argument(node, "mat2"));
      call.input = value_argument(node, "mat1");
      call.bias = value_argument(node, "self");
    } else if (is_any(node, {"aten.mm.default", "aten.bmm.default"})) {
      matrix = find_matrix(value_argument(node, "mat2"));
      call.input = value_argument(node, "self");
    } else if (node.target == "aten.matmul.default") {
      matrix = find_matrix(value_argument(node, "other"));
      call.input = value_argument(node, "self");
    }
    if (!fits(node, call, matrix)) return LinearCall{};
    call.weight = matrix.value;
    if (matrix.transpose) {
      KPT_ASSIGN_OR_RETURN(Tensor transposed, transpose_matrix(*edit_.constant(matrix.value)));
      call.weight = edit_.add_weight(node.name + "_weight", std::move(transposed));
    }
    return call;
  }

  // The right factor of a product x · m.
  Matrix find_matrix(ir::ValueId id) const {
    for (int step = 0; step < 8 && edit_.is_tensor(id); ++step) {
      if (edit_.constant(id) != nullptr) return {edit_.type(id).dims.size() == 2 ? id : ir::kNoValue, true};
      const ir::Node* made = edit_.made_by(id, {"aten.t.default", "aten.transpose.int", "aten.permute.default",
                                                "aten.expand.default", "aten.view.default"});
      if (made == nullptr) return {};
      const ir::ValueId self = value_argument(*made, "self");
      if (is_any(*made, {"aten.expand.default", "aten.view.default"})) {
        // Only over the batch: the matrix itself stays as it is.
        const auto& outer = edit_.type(id).dims;
        const auto& inner = edit_.type(self).dims;
        if (inner.size() < 2 || outer.size() < 2 || outer.back() != inner.back() ||
            outer[outer.size() - 2] != inner[inner.size() - 2]) {
          return {};
        }
        id = self;
        continue;
      }
      const bool swaps = made->target == "aten.t.default" || edit_.type(id).dims.size() == 2;
      if (!swaps || edit_.constant(self) == nullptr || edit_.type(self).dims.size() != 2) return {};
      if (edit_.type(id).dims.size() != 2) return {};
      return {self, edit_.type(self).dims[0] != edit_.type(id).dims[1] || is_identity(*made)};
    }
    return {};
  }

  // Of a matrix.
  static bool is_identity(const ir::Node& node) {
    if (node.target == "aten.transpose.int") {
      return axis_of(int_argument(node, "dim0").value_or(9), 2) == axis_of(int_argument(node, "dim1").value_or(9), 2);
    }
    const auto dims = ints_argument(node, "dims", std::vector<std::int64_t>());
    return dims && dims->size() == 2 && axis_of((*dims)[0], 2) == 0U;
  }

  bool fits(const ir::Node& node, const LinearCall& call, const Matrix& matrix) const {
    const Tensor* weight = edit_.constant(matrix.value);
    const ir::ValueId result = only_result(node);
    if (weight == nullptr || weight->dims().size() != 2 || !edit_.is_tensor(call.input) || !edit_.is_tensor(result)) {
      return false;
    }
    const ir::TensorType& input = edit_.type(call.input);
    const bool known = takes_dtype(capabilities_, kLinearTarget, weight->dtype());
    if (!known || input.dtype != weight->dtype() || edit_.type(result).dtype != weight->dtype()) return false;
    const std::int64_t columns = weight->dims()[matrix.transpose ? 0 : 1];
    const std::int64_t rows = weight->dims()[matrix.transpose ? 1 : 0];
    if (input.dims.empty() || input.dims.back() != ir::Expr(columns) || columns == 0 || rows == 0) return false;
    // A matrix that was expanded may have repeated the input.
    std::vector<ir::Expr> dims = input.dims;
    dims.back() = rows;
    if (edit_.type(result).dims != dims) return false;
    if (call.bias == ir::kNoValue) return is_absent(node, "bias");
    const ir::TensorType& bias = edit_.type(call.bias);
    return bias.dims.size() == 1 && bias.dims[0] == ir::Expr(rows) && bias.dtype == weight->dtype();
  }

  // x [B, S, K] → view [B·S, K] → product → view [B, S, N] is the product of x. Gives the node whose result is that of
  // the product, and changes the call's input.
  NodeIndex leave_views(NodeIndex index, LinearCall& call) {
    const ir::ValueId result = only_result(edit_.node(index));
    const NodeIndex inner = edit_.producer(call.input);
    const NodeIndex outer = edit_.only_user(result);
    if (inner == kNoNode || outer == kNoNode || !is_reshape(edit_.node(inner)) || !is_reshape(edit_.node(outer))) {
      return index;
    }
    const ir::ValueId source = value_argument(edit_.node(inner), "self");
    std::vector<ir::Expr> dims = edit_.type(source).dims;
    if (dims.empty() || dims.back() != edit_.type(call.input).dims.back()) return index;
    dims.back() = edit_.type(result).dims.back();
    if (edit_.type(only_result(edit_.node(outer))).dims != dims || !edit_.may_read_at(source, inner, outer) ||
        edit_.facts().is_written(result)) {
      return index;
    }
    call.input = source;
    return outer;
  }

  void fuse_behind(NodeIndex place, LinearCall call, std::string& detail) {
    std::size_t fused = 0;
    while (call.activation == ir::Activation::kNone) {
      const ir::ValueId result = only_result(edit_.node(place));
      const NodeIndex user = edit_.only_user(result);
      if (user == kNoNode || edit_.facts().is_written(result)) break;
      const ir::Node& next = edit_.node(user);
      const ir::Activation activation = activation_of(next);
      const ir::ValueId summand =
          takes_residual_ && call.residual == ir::kNoValue ? other_summand(edit_, next, result) : ir::kNoValue;
      if (activation == ir::Activation::kNone && summand == ir::kNoValue) break;
      if (!edit_.is_tensor(only_result(next)) || !may_move(place, user, call) ||
          edit_.type(only_result(next)).dtype != edit_.type(result).dtype) {
        break;
      }
      detail += " + " + next.name;
      call.activation = activation;
      if (summand != ir::kNoValue) call.residual = summand;
      set_call(user, call);
      place = user;
      ++fused;
    }
    stats_.changes += fused;
    if (fused > 0) stats_.details.push_back(detail);
  }

  bool may_move(NodeIndex from, NodeIndex to, const LinearCall& call) const {
    for (const ir::ValueId id : {call.input, call.bias, call.residual}) {
      if (id != ir::kNoValue && !edit_.may_read_at(id, from, to)) return false;
    }
    return true;
  }

  GraphEdit edit_;
  const Capabilities& capabilities_;
  bool takes_residual_;
  PassStats stats_;
};

Result<PassStats> run_fuse_linear(ir::Graph& graph, PassContext& context) { return LinearFusion(graph, context).run(); }

Support applies_fuse_linear(const Capabilities& capabilities) {
  return needs_own_operators(capabilities, {kLinearTarget});
}

}  // namespace

const Pass kFuseLinear = {"fuse_linear", "products with a weight become one node with bias, residual and activation",
                          false, applies_fuse_linear, run_fuse_linear};

}  // namespace kpt
