#include "engines/aten/module/gpu_attention.h"

#include <limits>

#include <ATen/Functions.h>

#include "engines/aten/module/gpu_own_nodes.h"
#include "engines/aten/module/typed_failure.h"

namespace kpt::aten {
namespace {

void require_attention(bool holds, const char* what) { require_as(StatusCode::kAttention, holds, what); }

}  // namespace

Result<AttentionForm> read_attention_form(const OwnBinding& binding) {
  AttentionForm form;
  KPT_RETURN_IF_ERROR(binding.check_tensor(AttentionForm::kQuery, kGpuReals, 4, 4));
  form.dtype = binding.find_type(AttentionForm::kQuery)->dtype;
  KPT_RETURN_IF_ERROR(binding.check_tensor(AttentionForm::kKey, {form.dtype}, 4, 4));
  KPT_RETURN_IF_ERROR(binding.check_tensor(AttentionForm::kValue, {form.dtype}, 4, 4));
  KPT_RETURN_IF_ERROR(binding.check_optional_tensor(AttentionForm::kMask, {DType::kBool, form.dtype}, 0, 4));
  KPT_RETURN_IF_ERROR(binding.check_result(0, form.dtype, 4));
  KPT_ASSIGN_OR_RETURN(form.scale, binding.number(AttentionForm::kScale));
  KPT_ASSIGN_OR_RETURN(form.causal, binding.truth(AttentionForm::kCausal));
  form.masked = !binding.is_none(AttentionForm::kMask);
  return form;
}

void check_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value) {
  require_attention(key.sizes() == value.sizes(), "key and value are not of the same sizes");
  require_attention(key.size(0) == query.size(0) && key.size(3) == query.size(3),
                    "the key has another batch or width than the query");
  if (query.numel() == 0 || key.size(2) == 0) return;
  require_attention(key.size(1) > 0 && query.size(1) % key.size(1) == 0,
                    "the heads of the query are no multiple of the heads of the key");
}

void check_mask(const at::Tensor& mask, at::IntArrayRef scores) {
  for (std::int64_t axis = 0; axis < mask.dim(); ++axis) {
    const auto wanted = scores[static_cast<std::size_t>(4 - mask.dim() + axis)];
    require_attention(mask.size(axis) == wanted || mask.size(axis) == 1,
                      "the mask cannot be broadcast to batch, heads, queries and keys");
  }
}

at::Tensor mask_to_add(const at::Tensor& given, bool causal, const at::TensorOptions& options, at::IntArrayRef scores) {
  check_mask(given, scores);
  at::Tensor mask = given;
  if (mask.scalar_type() == at::kBool) {
    // By one kernel: the logarithms of one and zero.
    mask = at::empty(given.sizes(), options);
    at::log_out(mask, given);
  }
  if (!causal) return mask;
  const at::Tensor never = at::scalar_tensor(-std::numeric_limits<double>::infinity(), options);
  const at::Tensor triangle = at::ones({scores[2], scores[3]}, options.dtype(at::kBool)).tril();
  return at::where(triangle, mask, never);
}

at::Tensor repeat_heads(const at::Tensor& tensor, std::int64_t times) {
  return tensor.unsqueeze(2)
      .expand({tensor.size(0), tensor.size(1), times, tensor.size(2), tensor.size(3)})
      .reshape({tensor.size(0), tensor.size(1) * times, tensor.size(2), tensor.size(3)});
}

}  // namespace kpt::aten
