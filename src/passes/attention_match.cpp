#include "passes/attention_match.h"

#include <algorithm>
#include <cmath>

#include "passes/node_arguments.h"
#include "passes/weight_values.h"

namespace kpt {
namespace {

// A product written as matmul or bmm, and its factors.
struct Product {
  ir::ValueId left = ir::kNoValue;
  ir::ValueId right = ir::kNoValue;
};

class AttentionMatcher {
 public:
  explicit AttentionMatcher(const GraphEdit& edit) : edit_(edit) {}

  std::optional<AttentionCall> match(NodeIndex index, NodeIndex& end) const {
    const Product last = product_at(edit_.node(index));
    if (last.left == ir::kNoValue) return std::nullopt;
    end = index;
    if (edit_.node(index).target == "aten.bmm.default") end = edit_.only_user(only_result(edit_.node(index)));
    if (end == kNoNode) return std::nullopt;
    if (end != index && !is_reshape(edit_.node(end))) return std::nullopt;
    const ir::ValueId result = only_result(edit_.node(end));
    if (!edit_.is_tensor(result) || rank(result) != 4) return std::nullopt;

    AttentionCall call;
    call.value = four_axes(last.right, false);
    const ir::ValueId scores = scores_of(four_axes(last.left, true));
    if (scores == ir::kNoValue || call.value == ir::kNoValue) return std::nullopt;
    if (!match_scores(scores, call)) return std::nullopt;
    return fits(call, result) ? std::optional(call) : std::nullopt;
  }

 private:
  std::size_t rank(ir::ValueId id) const { return edit_.type(id).dims.size(); }
  const std::vector<ir::Expr>& dims(ir::ValueId id) const { return edit_.type(id).dims; }

  static Product product_at(const ir::Node& node) {
    if (node.target == "aten.matmul.default") return {value_argument(node, "self"), value_argument(node, "other")};
    if (node.target == "aten.bmm.default") return {value_argument(node, "self"), value_argument(node, "mat2")};
    return {};
  }

  // The [B, H, M, N] behind a factor: itself, or what was expanded to its own shape, copied and seen as [B·H, M, N].
  // `once`: nobody else may use what is passed on the way.
  ir::ValueId four_axes(ir::ValueId id, bool once) const {
    if (id == ir::kNoValue) return ir::kNoValue;
    const std::vector<ir::Expr> wanted = dims(id);
    for (int step = 0; step < 6; ++step) {
      if (once && !edit_.has_one_use(id)) return ir::kNoValue;
      const ir::Node* made =
          edit_.made_by(id, {"aten.view.default", "aten.reshape.default", "aten._unsafe_view.default",
                             "aten.expand.default", "aten.clone.default", "aten.contiguous.default"});
      if (made == nullptr) break;
      const ir::ValueId self = value_argument(*made, "self");
      const bool keeps_sizes = rank(id) == 4 || made->target == "aten.expand.default";
      if (!is_matrix_of(self, wanted) || (keeps_sizes && dims(self) != dims(id))) break;
      id = self;
    }
    return rank(id) == 4 && is_matrix_of(id, wanted) ? id : ir::kNoValue;
  }

  bool is_matrix_of(ir::ValueId id, const std::vector<ir::Expr>& wanted) const {
    const auto& own = dims(id);
    return own.size() >= 3 && wanted.size() >= 3 && own.back() == wanted.back() &&
           own[own.size() - 2] == wanted[wanted.size() - 2];
  }

  // One to integers or truth values computes something.
  ir::ValueId skip_casts(ir::ValueId id) const {
    while (const ir::Node* cast =
               edit_.made_by(id, {"aten.to.dtype", "aten._to_copy.default", "aten.type_as.default"})) {
      if (!edit_.has_one_use(id) || !is_floating(edit_.type(id).dtype)) return ir::kNoValue;
      id = value_argument(*cast, "self");
    }
    return id;
  }

  // What the softmax is of. A row that may look nowhere is zero with the guard that run_decompositions() writes around.
  ir::ValueId scores_of(ir::ValueId id) const {
    if (id == ir::kNoValue) return ir::kNoValue;
    id = skip_casts(id);
    bool guarded = false;
    if (const ir::Node* where = edit_.made_by(id, {"aten.where.self"})) {
      if (!edit_.has_one_use(id) || edit_.constant_number(value_argument(*where, "self")) != 0.0) return ir::kNoValue;
      id = value_argument(*where, "other");
      guarded = true;
      if (dims(only_result(*where)) != dims(id) || !is_guard(value_argument(*where, "condition"), id)) {
        return ir::kNoValue;
      }
    }
    const ir::Node* softmax = edit_.made_by(id, {"aten.softmax.int", "aten._softmax.default"});
    if (softmax == nullptr || !int_argument(*softmax, "dim")) return ir::kNoValue;
    if (axis_of(*int_argument(*softmax, "dim"), 4) != 3U) return ir::kNoValue;
    // The guard and full_like look at the softmax's result and argument too.
    if (!guarded && !edit_.has_one_use(id)) return ir::kNoValue;
    const ir::ValueId scores = value_argument(*softmax, "self");
    if (!guarded && !edit_.has_one_use(scores)) return ir::kNoValue;
    if (edit_.is_output(id) || edit_.is_output(scores) || edit_.facts().is_written(scores)) return ir::kNoValue;
    return skip_score_casts(scores);
  }

  ir::ValueId skip_score_casts(ir::ValueId id) const {
    const ir::Node* cast = edit_.made_by(id, {"aten.to.dtype", "aten._to_copy.default"});
    return cast != nullptr && is_floating(edit_.type(id).dtype) ? value_argument(*cast, "self") : id;
  }

  // not any(not (scores == -inf)) over the keys.
  bool is_guard(ir::ValueId condition, ir::ValueId softmax_result) const {
    const ir::Node* outer = edit_.made_by(condition, {"aten.logical_not.default"});
    const ir::Node* any = outer == nullptr ? nullptr : edit_.made_by(value_argument(*outer, "self"), {"aten.any.dim"});
    const bool over_keys = any != nullptr && axis_of(int_argument(*any, "dim").value_or(9), 4) == 3U &&
                           bool_argument(*any, "keepdim", false) == true;
    const ir::Node* inner =
        over_keys ? edit_.made_by(value_argument(*any, "self"), {"aten.logical_not.default"}) : nullptr;
    const ir::Node* equal =
        inner == nullptr ? nullptr : edit_.made_by(value_argument(*inner, "self"), {"aten.eq.Scalar"});
    const ir::Node* softmax = edit_.made_by(softmax_result, {"aten.softmax.int", "aten._softmax.default"});
    return equal != nullptr && softmax != nullptr && number_argument(*equal, "other") == -HUGE_VAL &&
           value_argument(*equal, "self") == value_argument(*softmax, "self");
  }

  // scores = product · factor + mask + second mask
  bool match_scores(ir::ValueId scores, AttentionCall& call) const {
    const ir::Node* add = edit_.made_by(scores, {"aten.add.Tensor"});
    if (add == nullptr) return match_product(scores, call);
    const ir::ValueId a = value_argument(*add, "self");
    const ir::ValueId b = value_argument(*add, "other");
    if (a == ir::kNoValue || b == ir::kNoValue || number_argument(*add, "alpha", 1.0) != 1.0) return false;
    if (call.second_mask != ir::kNoValue) return false;
    for (const auto& [product, mask] : {std::pair(a, b), std::pair(b, a)}) {
      // A truth value that is added counts as 0 or 1; ours would take it for where to look.
      if (edit_.type(mask).dtype == DType::kBool) continue;
      AttentionCall tried = call;
      tried.second_mask = call.mask;
      tried.mask = mask;
      if (edit_.has_one_use(product) && dims(product) == dims(scores) && match_scores(product, tried)) {
        call = tried;
        return true;
      }
    }
    return false;
  }

  bool match_product(ir::ValueId id, AttentionCall& call) const {
    id = unscale(id, call.scale);
    // Between bmm and the rest stands the view that gives the heads back.
    if (const NodeIndex made = edit_.producer(id); made != kNoNode && is_reshape(edit_.node(made)) && rank(id) == 4) {
      if (!edit_.has_one_use(id)) return false;
      id = value_argument(edit_.node(made), "self");
    }
    const NodeIndex made = edit_.producer(id);
    if (made == kNoNode || !edit_.has_one_use(id)) return false;
    const Product product = product_at(edit_.node(made));
    call.query = unscale(four_axes(product.left, false), call.scale);
    const ir::ValueId transposed = unscale(four_axes(product.right, false), call.scale);
    if (call.query == ir::kNoValue || transposed == ir::kNoValue) return false;
    if (const ir::ValueId key = untranspose(transposed); key != ir::kNoValue) {
      // Some models scale the keys before they are transposed.
      call.key = unscale(key, call.scale);
      return true;
    }
    call.key = transposed;
    call.key_transposed = true;
    return true;
  }

  ir::ValueId untranspose(ir::ValueId id) const {
    if (const ir::Node* made = edit_.made_by(id, {"aten.transpose.int"})) {
      const auto a = axis_of(int_argument(*made, "dim0").value_or(9), 4);
      const auto b = axis_of(int_argument(*made, "dim1").value_or(9), 4);
      const bool last_two = (a == 2U && b == 3U) || (a == 3U && b == 2U);
      return last_two ? value_argument(*made, "self") : ir::kNoValue;
    }
    if (const ir::Node* made = edit_.made_by(id, {"aten.permute.default"})) {
      const bool last_two = ints_argument(*made, "dims") == std::vector<std::int64_t>{0, 1, 3, 2};
      return last_two ? value_argument(*made, "self") : ir::kNoValue;
    }
    return ir::kNoValue;
  }

  ir::ValueId unscale(ir::ValueId id, double& scale) const {
    if (id == ir::kNoValue) return id;
    const ir::Node* node = edit_.made_by(id, {"aten.mul.Tensor", "aten.mul.Scalar", "aten.div.Tensor"});
    if (node == nullptr) return id;
    std::optional<double> factor = number_argument(*node, "other");
    const ir::ValueId other = value_argument(*node, "other");
    if (!factor && other != ir::kNoValue && dims(other).empty()) factor = edit_.constant_number(other);
    const ir::ValueId self = value_argument(*node, "self");
    if (!factor || self == ir::kNoValue || dims(self) != dims(id) || edit_.type(self).dtype != edit_.type(id).dtype) {
      return id;
    }
    scale *= node->target == "aten.div.Tensor" ? 1 / *factor : *factor;
    return self;
  }

  bool fits(const AttentionCall& call, ir::ValueId result) const {
    const ir::TensorType& query = edit_.type(call.query);
    const ir::TensorType& value = edit_.type(call.value);
    return query.dims.size() == 4 && rank(call.key) == 4 && value.dims.size() == 4 && rank(result) == 4 &&
           dims(result)[3] == query.dims[3] && value.dims[3] == query.dims[3] && dims(result)[2] == query.dims[2] &&
           dims(result)[1] == query.dims[1] && dims(result)[0] == query.dims[0];
  }

  const GraphEdit& edit_;
};

// Whether every element is what `expected(row, column)` says, over all leading axes.
template <typename Expected>
bool all_elements(const std::vector<double>& values, std::size_t rows, std::size_t columns, const Expected& expected) {
  for (std::size_t at = 0; at < values.size(); ++at) {
    if (!expected((at / columns) % rows, at % columns, values[at])) return false;
  }
  return true;
}

}  // namespace

std::optional<AttentionCall> match_fused_attention(const GraphEdit& edit, const ir::Node& node) {
  if (node.target != "aten.scaled_dot_product_attention.default") return std::nullopt;
  AttentionCall call;
  call.query = value_argument(node, "query");
  call.key = value_argument(node, "key");
  call.value = value_argument(node, "value");
  call.mask = value_argument(node, "attn_mask");
  const auto causal = bool_argument(node, "is_causal", false);
  const ir::ValueId result = only_result(node);
  if (!edit.is_tensor(result) || edit.type(result).dims.size() != 4 || !causal ||
      number_argument(node, "dropout_p", 0.0) != 0.0) {
    return std::nullopt;
  }
  call.causal = *causal;
  const auto& width = edit.type(call.query).dims;
  if (width.size() != 4 || edit.type(result).dims[3] != width[3]) return std::nullopt;
  std::optional<double> scale = number_argument(node, "scale");
  if (!scale && is_absent(node, "scale") && width[3].constant().value_or(0) > 0) {
    scale = 1 / std::sqrt(static_cast<double>(*width[3].constant()));
  }
  if (!scale) return std::nullopt;
  call.scale = *scale;
  return call;
}

std::optional<AttentionCall> match_written_attention(const GraphEdit& edit, NodeIndex index, NodeIndex& end) {
  return AttentionMatcher(edit).match(index, end);
}

ir::ValueId without_repeated_heads(const GraphEdit& edit, ir::ValueId id) {
  const auto& repeated = edit.type(id).dims;
  if (const ir::Node* node = edit.made_by(id, {"aten.repeat_interleave.self_int"})) {
    const auto dim = int_argument(*node, "dim");
    return dim && axis_of(*dim, 4) == 1U ? value_argument(*node, "self") : id;
  }
  const ir::Node* view = edit.made_by(id, {"aten.reshape.default", "aten.view.default", "aten._unsafe_view.default"});
  if (view == nullptr) return id;
  ir::ValueId inner = value_argument(*view, "self");
  if (const ir::Node* copy = edit.made_by(inner, {"aten.clone.default", "aten.contiguous.default"})) {
    inner = value_argument(*copy, "self");
  }
  const ir::Node* expand = edit.made_by(inner, {"aten.expand.default"});
  const ir::Node* unsqueeze =
      expand == nullptr ? nullptr : edit.made_by(value_argument(*expand, "self"), {"aten.unsqueeze.default"});
  if (unsqueeze == nullptr || repeated.size() != 4) return id;
  const ir::ValueId heads = value_argument(*unsqueeze, "self");
  const auto& wide = edit.type(inner).dims;
  const auto& own = edit.type(heads).dims;
  if (own.size() != 4 || wide.size() != 5 || axis_of(int_argument(*unsqueeze, "dim").value_or(9), 5) != 2U) return id;
  const auto groups = own[1].constant();
  const auto times = wide[2].constant();
  const auto total = repeated[1].constant();
  const bool repeats = groups && times && total && wide[1] == own[1] && *groups * *times == *total &&
                       repeated[0] == own[0] && repeated[2] == own[2] && repeated[3] == own[3];
  return repeats ? heads : id;
}

MaskKind classify_mask(const GraphEdit& edit, ir::ValueId mask) {
  while (const ir::Node* expand = edit.made_by(mask, {"aten.expand.default"})) mask = value_argument(*expand, "self");
  const Tensor* tensor = edit.constant(mask);
  if (tensor == nullptr || tensor->dims().size() < 2) return MaskKind::kAny;
  const auto values = read_as_double(*tensor);
  if (!values.ok()) return MaskKind::kAny;
  const bool truth = tensor->dtype() == DType::kBool;
  // The lowest float stands for minus infinity in models' masks.
  const auto open = [&](double value) { return truth ? value != 0 : value == 0; };
  const auto closed = [&](double value) { return truth ? value == 0 : value <= -3e38; };
  const auto rows = static_cast<std::size_t>(tensor->dims()[tensor->dims().size() - 2]);
  const auto columns = static_cast<std::size_t>(tensor->dims()[tensor->dims().size() - 1]);
  if (rows == 0 || columns == 0) return MaskKind::kAny;
  if (all_elements(*values, rows, columns, [&](auto, auto, double value) { return open(value); }))
    return MaskKind::kNone;
  const bool triangle =
      rows == columns && all_elements(*values, rows, columns, [&](auto row, auto column, double value) {
        return column <= row ? open(value) : closed(value);
      });
  return triangle ? MaskKind::kCausal : MaskKind::kAny;
}

}  // namespace kpt
