// kpt.attention(query, key, value, mask, scale, causal) -> result: one kernel of ours where the GPU has matrix cores
// that it is for and the tensors are as it takes them (gpu::fits_attention(), as in engines/native), else libtorch's
// operator.
#include <ATen/Functions.h>
#include <fmt/format.h>

#include "engines/aten/module/gpu_attention.h"
#include "engines/aten/module/gpu_launch.h"
#include "engines/aten/module/tensors.h"
#include "engines/aten/rocm/rocm_own_nodes.h"
#include "kernels/gpu/attention.h"

namespace kpt::aten {
namespace {

// Of [batch, head, row]; an axis of one element may have any stride, and is never stepped along.
gpu::RowStrides row_strides(const at::Tensor& tensor) {
  gpu::RowStrides strides{};
  for (std::size_t axis = 0; axis < strides.size(); ++axis) {
    const auto at = static_cast<std::int64_t>(axis);
    strides[axis] = tensor.size(at) == 1 ? 0 : tensor.stride(at);
  }
  return strides;
}

class AttentionNode final : public OwnNode {
 public:
  explicit AttentionNode(const AttentionForm& form) : form_(form) {}

  std::string describe() const override {
    if (form_.dtype == DType::kFloat32) return "libtorch's attention";
    return fmt::format(
        "attention on matrix cores ({}) where the GPU has them, for heads of 64 or 128; else libtorch's attention",
        to_string(form_.dtype));
  }

  void run(OwnCall& call) const override {
    if (!call.wants(0)) return;
    const at::Tensor& query = call.tensor(AttentionForm::kQuery);
    const at::Tensor& key = call.tensor(AttentionForm::kKey);
    const at::Tensor& value = call.tensor(AttentionForm::kValue);
    check_attention(query, key, value);
    const at::DimVector sizes{query.size(0), query.size(2), query.size(1), query.size(3)};
    if (query.numel() == 0 || key.size(2) == 0) {
      call.result(0, sizes).zero_();
      return;
    }
    const at::DimVector scores{query.size(0), query.size(1), query.size(2), key.size(2)};
    if (form_.masked) check_mask(call.tensor(AttentionForm::kMask), scores);
    const gpu::AttentionCall fused = fused_call(query, key, value, sizes);
    const bool dense = query.stride(3) == 1 && key.stride(3) == 1 && value.stride(3) == 1;
    if (dense && gpu::fits_attention(fused, device_shape().matrix)) {
      attend_fused(fused, scores, sizes, call);
    } else {
      attend_by_library(query, key, value, scores, sizes, call);
    }
  }

 private:
  // All of the call but result and mask.
  gpu::AttentionCall fused_call(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                at::IntArrayRef sizes) const {
    gpu::AttentionCall fused;
    fused.dtype = form_.dtype;
    fused.query = query.const_data_ptr();
    fused.key = key.const_data_ptr();
    fused.value = value.const_data_ptr();
    fused.query_strides = row_strides(query);
    fused.key_strides = row_strides(key);
    fused.value_strides = row_strides(value);
    fused.output_strides = {sizes[1] * sizes[2] * sizes[3], sizes[3], sizes[2] * sizes[3]};
    fused.batches = query.size(0);
    fused.heads = query.size(1);
    fused.groups = key.size(1);
    fused.queries = query.size(2);
    fused.keys = key.size(2);
    fused.width = query.size(3);
    fused.scale = static_cast<float>(form_.scale);
    fused.causal = form_.causal;
    return fused;
  }

  void attend_fused(gpu::AttentionCall fused, at::IntArrayRef scores, at::IntArrayRef sizes, OwnCall& call) const {
    at::Tensor mask;
    if (form_.masked) {
      mask = call.tensor(AttentionForm::kMask);
      while (mask.dim() < 4) mask = mask.unsqueeze(0);
      // The kernel reads a mask's last axis without gaps.
      if (mask.size(3) != scores[3] || (scores[3] != 1 && mask.stride(3) != 1)) {
        mask = mask.expand({-1, -1, -1, scores[3]}).contiguous();
      }
      fused.mask = mask.const_data_ptr();
      fused.mask_dtype = dtype_of(mask);
      fused.mask_strides = row_strides(mask);
    }
    fused.output = call.result(0, sizes).mutable_data_ptr();
    launch(gpu::plan_attention(fused, device_shape()));
  }

  void attend_by_library(const at::Tensor& query, at::Tensor key, at::Tensor value, at::IntArrayRef scores,
                         at::IntArrayRef sizes, OwnCall& call) const {
    if (key.size(1) != query.size(1)) {
      const std::int64_t times = query.size(1) / key.size(1);
      key = repeat_heads(key, times);
      value = repeat_heads(value, times);
    }
    if (!form_.masked) {
      const at::Tensor result = at::scaled_dot_product_attention(query, key, value, {}, 0.0, form_.causal, form_.scale);
      call.adopt(0, result.transpose(1, 2), sizes);
      return;
    }
    const at::Tensor mask = mask_to_add(call.tensor(AttentionForm::kMask), form_.causal, query.options(), scores);
    at::Tensor result =
        at::scaled_dot_product_attention(query, key, value, mask.expand(scores), 0.0, false, form_.scale);
    // A row that may look nowhere must be zero. AMD's kernels behind libtorch were not seen to hold to it.
    result.masked_fill_(at::isneginf(mask).all(-1, true), 0);
    call.adopt(0, result.transpose(1, 2), sizes);
  }

  AttentionForm form_;
};

}  // namespace

Result<std::unique_ptr<OwnNode>> bind_rocm_attention(const OwnBinding& binding) {
  KPT_ASSIGN_OR_RETURN(const AttentionForm form, read_attention_form(binding));
  return std::unique_ptr<OwnNode>(std::make_unique<AttentionNode>(form));
}

}  // namespace kpt::aten
