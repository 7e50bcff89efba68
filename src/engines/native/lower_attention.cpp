// Attention: one kernel on matrix cores, or products around a softmax.
#include <cmath>

#include <fmt/format.h>

#include "engines/native/elementwise_steps.h"
#include "engines/native/product_steps.h"
#include "engines/native/rules.h"
#include "kernels/gpu/attention.h"
#include "kernels/gpu/softmax.h"
#include "passes/node_arguments.h"

namespace kpt::native {
namespace {

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

// The fused kernel's view of a tensor [B, H, rows, D].
gpu::RowStrides row_strides(const View& view) { return {view.strides[0], view.strides[1], view.strides[2]}; }

bool is_fused_operand(const View& view, DType dtype) {
  // Blocks begin at multiples of 16 bytes.
  return view.dtype == dtype && view.strides[3] == 1 && view.offset % 8 == 0;
}

// All of the call but addresses.
gpu::AttentionCall fused_call(const AttentionStep& step, const std::optional<View>& mask) {
  gpu::AttentionCall call;
  call.dtype = step.query.dtype;
  call.query_strides = row_strides(step.query);
  call.key_strides = row_strides(step.key);
  call.value_strides = row_strides(step.value);
  call.output_strides = row_strides(step.output);
  call.batches = step.query.dims[0];
  call.heads = step.query.dims[1];
  call.groups = step.key.dims[1];
  call.queries = step.query.dims[2];
  call.keys = step.key.dims[2];
  call.width = step.query.dims[3];
  if (mask) call.mask_dtype = mask->dtype;
  if (mask) call.mask_strides = row_strides(*mask);
  call.scale = step.scale;
  call.causal = step.causal;
  return call;
}

// One kernel on matrix cores, where the tensors are as it wants them.
bool add_fused_attention(PlanBuilder& plan, const AttentionStep& step, const std::optional<View>& mask) {
  const DType dtype = step.query.dtype;
  for (const View* view : {&step.query, &step.key, &step.value, &step.output}) {
    if (!is_fused_operand(*view, dtype)) return false;
  }
  const gpu::AttentionCall call = fused_call(step, mask);
  if (step.value.dims[3] != call.width || !gpu::fits_attention(call, plan.traits().shape.matrix)) return false;
  std::vector<View> used = {step.query, step.key, step.value, step.output};
  if (mask) used.push_back(*mask);
  plan.add(used, [=](const Addresses& at, const gpu::DeviceShape& shape) {
    gpu::AttentionCall placed = call;
    placed.query = at.of(step.query);
    placed.key = at.of(step.key);
    placed.value = at.of(step.value);
    placed.output = at.of(step.output);
    if (mask) placed.mask = at.of(*mask);
    return gpu::plan_attention(placed, shape);
  });
  return true;
}

// Otherwise two products around a softmax, with scores in float32, so that they are rounded no more than a fused
// kernel's.
Status add_attention(PlanBuilder& plan, const AttentionStep& step) {
  KPT_RETURN_IF_ERROR(check_product_types({&step.query, &step.key, &step.value, &step.output}));
  const std::int64_t heads = step.query.dims[1];
  const std::int64_t groups = step.key.dims[1];
  const Dims& keys = step.key.dims;
  if (groups == 0 || heads % groups != 0 || step.value.dims[1] != groups || keys[0] != step.query.dims[0] ||
      step.value.dims[0] != keys[0] || step.value.dims[2] != keys[2] || keys[3] != step.query.dims[3]) {
    return not_covered("query, key and value do not fit together");
  }
  const Dims extents = {step.query.dims[0], heads, step.query.dims[2], keys[2]};
  KPT_ASSIGN_OR_RETURN(const auto mask, attention_mask(plan, step.mask, extents));
  if (add_fused_attention(plan, step, mask)) return {};
  KPT_ASSIGN_OR_RETURN(const View scores, plan.make(DType::kFloat32, extents));
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

constexpr RuleRow kAttentionRules[] = {
    {"aten.scaled_dot_product_attention.default", lower_sdpa},
    {"kpt.attention.default", lower_own_attention},
};

}  // namespace

std::span<const RuleRow> attention_rules() { return kAttentionRules; }

}  // namespace kpt::native
