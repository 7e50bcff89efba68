// Products of matrices, and attention as products around a softmax.
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "engines/native/elementwise_steps.h"
#include "engines/native/product_steps.h"
#include "engines/native/rules.h"
#include "ir/own_operators.h"
#include "kernels/gpu/matrix.h"
#include "kernels/gpu/softmax.h"
#include "passes/node_arguments.h"

namespace kpt::native {
namespace {

using gpu::Activation;

// Three batch axes before two of a matrix.
constexpr std::size_t kBatched = 5;

// Axes of one element in front until there are five.
View batched(View view) {
  while (view.dims.size() < kBatched) view = with_axis(view, 0);
  return view;
}

// [rows, width] as [1, 1, 1, rows, width].
View as_matrix(const RowView& source) {
  View view = source.view;
  view.dims = {1, 1, 1, source.rows.rows, source.rows.width};
  view.strides = {0, 0, 0, source.rows.stride, 1};
  return view;
}

struct LinearStep {
  View input, weight, output;
  std::optional<View> bias, residual;
  Activation activation = Activation::kNone;
};

// On matrix cores, where all tensors are of their type and nothing is added to the result.
bool add_matrix_cores(PlanBuilder& plan, const LinearStep& step, const RowView& input, const RowView& weight) {
  const DType dtype = step.weight.dtype;
  const bool narrow = dtype == DType::kFloat16 || dtype == DType::kBFloat16;
  if (!plan.traits().matrix_cores || !narrow || step.residual || input.view.dtype != dtype ||
      step.output.dtype != dtype) {
    return false;
  }
  std::vector<View> used = {input.view, weight.view, step.output};
  if (step.bias) used.push_back(*step.bias);
  plan.add(used, [=](const Addresses& at, const gpu::DeviceShape& shape) {
    gpu::MatrixCall call;
    call.dtype = dtype;
    call.activation = step.activation;
    call.input = at.of(input.view);
    call.weight = at.of(weight.view);
    call.bias = step.bias ? at.of(*step.bias) : nullptr;
    call.bias_dtype = step.bias ? step.bias->dtype : dtype;
    call.output = at.of(step.output);
    call.rows = input.rows.rows;
    call.columns = weight.rows.rows;
    call.depth = input.rows.width;
    call.input_stride = input.rows.stride;
    call.weight_stride = weight.rows.stride;
    return gpu::plan_matrix(call, shape);
  });
  return true;
}

Status add_linear(PlanBuilder& plan, LinearStep step) {
  KPT_RETURN_IF_ERROR(
      check_product_types({&step.input, &step.weight, &step.output, step.bias ? &*step.bias : nullptr}));
  if (step.weight.dims.size() != 2 || step.input.dims.empty()) return not_covered("the weight is no matrix");
  KPT_ASSIGN_OR_RETURN(const RowView input, rows_of(plan, step.input));
  KPT_ASSIGN_OR_RETURN(const RowView weight, rows_of(plan, step.weight));
  if (input.rows.width != weight.rows.width) return not_covered("the depths of the product differ");
  Dims extents = step.input.dims;
  extents[extents.size() - 1] = step.weight.dims[0];
  KPT_RETURN_IF_ERROR(check_result(step.output, step.output.dtype, extents));
  if (step.bias) {
    const auto bias = expanded(*step.bias, {step.weight.dims[0]});
    if (!bias) return not_covered("the bias does not fit");
    KPT_ASSIGN_OR_RETURN(step.bias, contiguous(plan, *bias));
  }
  if (step.residual) {
    if (!(step.residual->dims == extents)) return not_covered("what is added is of another shape");
    KPT_ASSIGN_OR_RETURN(const View same, cast(plan, *step.residual, step.output.dtype));
    KPT_ASSIGN_OR_RETURN(step.residual, contiguous(plan, same));
  }
  if (add_matrix_cores(plan, step, input, weight)) return {};
  ProductStep product;
  product.left = as_matrix(input);
  product.right = as_matrix(weight);
  product.output = as_matrix({step.output, {input.rows.rows, weight.rows.rows, weight.rows.rows}});
  product.bias = step.bias;
  product.residual = step.residual;
  product.activation = step.activation;
  add_product(plan, product);
  return {};
}

Status lower_linear(PlanBuilder& plan, const ir::Node& node) {
  LinearStep step;
  KPT_ASSIGN_OR_RETURN(step.input, plan.tensor(node, "input"));
  KPT_ASSIGN_OR_RETURN(step.weight, plan.tensor(node, "weight"));
  KPT_ASSIGN_OR_RETURN(step.bias, plan.find_tensor(node, "bias"));
  KPT_ASSIGN_OR_RETURN(step.residual, plan.find_tensor(node, "residual"));
  const auto activation = ir::find_activation(string_argument(node, "activation", "none"));
  if (!activation) return not_covered("it has an unknown activation");
  step.activation = static_cast<Activation>(*activation);
  KPT_ASSIGN_OR_RETURN(step.output, plan.make_result(node));
  return add_linear(plan, step);
}

// self · beta + alpha · mat1 · mat2, for a self that is a row or of the result's shape.
Status lower_addmm(PlanBuilder& plan, const ir::Node& node) {
  KPT_ASSIGN_OR_RETURN(const View added, plan.tensor(node, "self"));
  KPT_ASSIGN_OR_RETURN(const View left, plan.tensor(node, "mat1"));
  KPT_ASSIGN_OR_RETURN(const View right, plan.tensor(node, "mat2"));
  KPT_ASSIGN_OR_RETURN(const Number alpha, plan.number(node, "alpha", 1));
  KPT_ASSIGN_OR_RETURN(const Number beta, plan.number(node, "beta", 1));
  if (beta.real != 1) return not_covered("beta is not 1");
  KPT_ASSIGN_OR_RETURN(const View output, plan.make_result(node));
  KPT_RETURN_IF_ERROR(check_product_types({&left, &right, &output, &added}));
  if (left.dims.size() != 2 || right.dims.size() != 2 || left.dims[1] != right.dims[0]) {
    return not_covered("the extents do not fit");
  }
  KPT_RETURN_IF_ERROR(check_result(output, output.dtype, {left.dims[0], right.dims[1]}));
  ProductStep step;
  step.left = batched(left);
  step.right = batched(transposed(right, 0, 1));
  step.output = batched(output);
  step.scale = static_cast<float>(alpha.real);
  if (added.dims.size() == 1 && added.dims[0] == output.dims[1]) {
    KPT_ASSIGN_OR_RETURN(step.bias, contiguous(plan, added));
  } else {
    const auto whole = expanded(added, output.dims);
    if (!whole) return not_covered("what is added cannot be broadcast to the result");
    KPT_ASSIGN_OR_RETURN(const View same, cast(plan, *whole, output.dtype));
    KPT_ASSIGN_OR_RETURN(step.residual, contiguous(plan, same));
  }
  add_product(plan, step);
  return {};
}

// mm, bmm and matmul of at least two axes each.
Status lower_matmul(PlanBuilder& plan, const ir::Node& node) {
  const bool named = find_argument(node, "mat2") != nullptr;
  KPT_ASSIGN_OR_RETURN(View left, plan.tensor(node, "self"));
  KPT_ASSIGN_OR_RETURN(View right, plan.tensor(node, named ? "mat2" : "other"));
  const std::size_t rank = std::max(left.dims.size(), right.dims.size());
  if (left.dims.size() < 2 || right.dims.size() < 2 || rank > kBatched) {
    return not_covered(fmt::format("products take tensors of 2 to {} axes", kBatched));
  }
  // A matrix that all batches share: one product of more rows.
  if (right.dims.size() == 2 && left.dims.size() > 2) {
    KPT_ASSIGN_OR_RETURN(const View output, plan.make_result(node));
    return add_linear(plan, {left, transposed(right, 0, 1), output, {}, {}, Activation::kNone});
  }
  KPT_ASSIGN_OR_RETURN(const View output, plan.make_result(node));
  KPT_RETURN_IF_ERROR(check_product_types({&left, &right, &output}));
  if (output.dims.size() != rank) return not_covered("the extents do not fit");
  ProductStep step;
  step.output = batched(output);
  Dims left_dims = step.output.dims;
  left_dims[4] = left.dims[left.dims.size() - 1];
  Dims right_dims = step.output.dims;
  right_dims[3] = right_dims[4];
  right_dims[4] = left_dims[4];
  const auto wide_left = expanded(left, left_dims);
  const auto wide_right = expanded(transposed(right, right.dims.size() - 2, right.dims.size() - 1), right_dims);
  if (!wide_left || !wide_right) return not_covered("the extents do not fit");
  step.left = *wide_left;
  step.right = *wide_right;
  add_product(plan, step);
  return {};
}

struct AttentionStep {
  View query;       // [B, H, S, D]
  View key, value;  // [B, G, T, D]
  std::optional<View> mask;
  View output;  // [B, H, S, D] in any order of axes, D without gaps
  float scale = 1;
  bool causal = false;
};

// [B, heads, X, Y] as [B, G, heads / G, X, Y]; one of as many heads as there are groups is shared within each.
View grouped(const View& view, std::int64_t groups, std::int64_t each) {
  View result = view;
  const std::int64_t own = view.dims[1] == groups ? 1 : each;
  result.dims = {view.dims[0], groups, each, view.dims[2], view.dims[3]};
  result.strides = {view.strides[0], view.strides[1] * own, own == 1 && each != 1 ? 0 : view.strides[1],
                    view.strides[2], view.strides[3]};
  return result;
}

Result<std::optional<View>> attention_mask(PlanBuilder& plan, const std::optional<View>& mask, const Dims& scores) {
  if (!mask) return std::optional<View>();
  View own = *mask;
  if (own.dtype != DType::kBool) {
    KPT_ASSIGN_OR_RETURN(own, cast(plan, own, DType::kFloat32));
  }
  // The softmax reads a mask's last axis without gaps.
  while (own.dims.size() < scores.size()) own = with_axis(own, 0);
  if (own.strides[3] != 1 || own.dims[3] != scores[3]) {
    Dims dims = own.dims;
    dims[3] = scores[3];
    const auto wide = expanded(own, dims);
    if (!wide) return not_covered("the mask does not fit");
    KPT_ASSIGN_OR_RETURN(const View copy, plan.make(own.dtype, dims));
    KPT_RETURN_IF_ERROR(copy_into(plan, *wide, copy));
    own = copy;
  }
  const auto result = expanded(own, scores);
  if (!result) return not_covered("the mask does not fit");
  return result;
}

void add_attention_softmax(PlanBuilder& plan, const View& scores, const std::optional<View>& mask, bool causal) {
  std::vector<View> used = {scores};
  if (mask) used.push_back(*mask);
  plan.add(used, [=](const Addresses& at, const gpu::DeviceShape& shape) {
    gpu::SoftmaxCall call;
    call.input = at.of(scores);
    call.output = at.of(scores);
    call.batches = scores.dims[0];
    call.heads = scores.dims[1];
    call.queries = scores.dims[2];
    call.width = call.input_stride = scores.dims[3];
    if (mask) {
      call.mask = at.of(*mask);
      call.mask_dtype = mask->dtype;
      call.mask_batch_stride = mask->strides[0];
      call.mask_head_stride = mask->strides[1];
      call.mask_query_stride = mask->strides[2];
    }
    call.causal = causal;
    return gpu::plan_softmax(call, shape);
  });
}

// Scores in float32, so that they are rounded no more than a fused kernel's.
Status add_attention(PlanBuilder& plan, const AttentionStep& step) {
  KPT_RETURN_IF_ERROR(check_product_types({&step.query, &step.key, &step.value, &step.output}));
  const std::int64_t heads = step.query.dims[1];
  const std::int64_t groups = step.key.dims[1];
  const Dims& keys = step.key.dims;
  if (groups == 0 || heads % groups != 0 || step.value.dims[1] != groups || keys[0] != step.query.dims[0] ||
      step.value.dims[0] != keys[0] || step.value.dims[2] != keys[2] || keys[3] != step.query.dims[3]) {
    return not_covered("query, key and value do not fit together");
  }
  KPT_ASSIGN_OR_RETURN(const View scores,
                       plan.make(DType::kFloat32, {step.query.dims[0], heads, step.query.dims[2], keys[2]}));
  KPT_ASSIGN_OR_RETURN(const auto mask, attention_mask(plan, step.mask, scores.dims));
  const std::int64_t each = heads / groups;
  ProductStep product;
  product.left = grouped(step.query, groups, each);
  product.right = grouped(step.key, groups, each);
  product.output = grouped(scores, groups, each);
  product.scale = step.scale;
  add_product(plan, product);
  add_attention_softmax(plan, scores, mask, step.causal);
  product.left = product.output;
  product.right = transposed(grouped(step.value, groups, each), 3, 4);
  product.output = grouped(step.output, groups, each);
  product.scale = 1;
  add_product(plan, product);
  return {};
}

Status read_attention(PlanBuilder& plan, const ir::Node& node, AttentionStep& step) {
  KPT_ASSIGN_OR_RETURN(step.query, plan.tensor(node, "query"));
  KPT_ASSIGN_OR_RETURN(step.key, plan.tensor(node, "key"));
  KPT_ASSIGN_OR_RETURN(step.value, plan.tensor(node, "value"));
  for (const View* view : {&step.query, &step.key, &step.value}) {
    if (view->dims.size() != 4) return not_covered("attention takes tensors of 4 axes");
  }
  const double root = 1 / std::sqrt(static_cast<double>(step.query.dims[3]));
  KPT_ASSIGN_OR_RETURN(const Number scale, plan.number(node, "scale", root));
  step.scale = static_cast<float>(scale.real);
  return {};
}

Status lower_sdpa(PlanBuilder& plan, const ir::Node& node) {
  AttentionStep step;
  KPT_RETURN_IF_ERROR(read_attention(plan, node, step));
  KPT_ASSIGN_OR_RETURN(step.mask, plan.find_tensor(node, "attn_mask"));
  step.causal = bool_argument(node, "is_causal", false).value_or(false);
  if (number_argument(node, "dropout_p", 0).value_or(1) != 0) return not_covered("it draws random numbers");
  if (step.key.dims[1] != step.query.dims[1] && !bool_argument(node, "enable_gqa", false).value_or(false)) {
    return not_covered("query and key have different numbers of heads");
  }
  // Laid out as the projection behind it reads it.
  const Dims& query = step.query.dims;
  const ir::ValueId id = only_result(node);
  if (id == ir::kNoValue) return not_covered("the result is no tensor");
  KPT_ASSIGN_OR_RETURN(const View memory,
                       plan.make(plan.dtype(id), {query[0], query[2], query[1], step.value.dims[3]}));
  step.output = transposed(memory, 1, 2);
  KPT_RETURN_IF_ERROR(plan.define_result(node, step.output));
  return add_attention(plan, step);
}

Status lower_own_attention(PlanBuilder& plan, const ir::Node& node) {
  AttentionStep step;
  KPT_RETURN_IF_ERROR(read_attention(plan, node, step));
  KPT_ASSIGN_OR_RETURN(step.mask, plan.find_tensor(node, "mask"));
  step.causal = bool_argument(node, "causal", false).value_or(false);
  KPT_ASSIGN_OR_RETURN(const View result, plan.make_result(node));
  const Dims& query = step.query.dims;
  KPT_RETURN_IF_ERROR(check_result(result, result.dtype, {query[0], query[2], query[1], step.value.dims[3]}));
  step.output = transposed(result, 1, 2);
  return add_attention(plan, step);
}

constexpr RuleRow kRules[] = {
    {"aten.addmm.default", lower_addmm},
    {"aten.bmm.default", lower_matmul},
    {"aten.linear.default", lower_linear},
    {"aten.matmul.default", lower_matmul},
    {"aten.mm.default", lower_matmul},
    {"aten.scaled_dot_product_attention.default", lower_sdpa},
    {"kpt.attention.default", lower_own_attention},
    {"kpt.linear.default", lower_linear},
};

}  // namespace

std::span<const RuleRow> product_rules() { return kRules; }

}  // namespace kpt::native
