// kpt.attention(query, key, value, mask, scale, causal) -> result, by the kernel that choose_attention() takes:
// cuDNN's, or libtorch's operator, which takes the one that is said there.
#include <atomic>

#include <ATen/Functions.h>
#include <ATen/cuda/CUDAContext.h>
#include <fmt/format.h>

#include "engines/aten/attention_choice.h"
#include "engines/aten/cuda/cuda_own_nodes.h"
#include "engines/aten/module/device_memory.h"
#include "engines/aten/module/gpu_attention.h"
#include "engines/aten/module/gpu_launch.h"
#include "engines/aten/module/guarded_call.h"
#include "engines/aten/module/typed_failure.h"
#include "kernels/gpu/blind_rows.h"

namespace kpt::aten {
namespace {

class AttentionNode final : public OwnNode {
 public:
  // `recorded`: what the file says.
  AttentionNode(const AttentionCase& recorded, double scale)
      : recorded_(recorded),
        dtype_(recorded.dtype),
        masked_(recorded.masked),
        scale_(scale),
        causal_(recorded.causal) {}

  std::string describe() const override {
    AttentionCase known = recorded_;
    known.cudnn_refused = refused_;
    return describe_attention(known);
  }

  Status prepare(const OwnWeights&) override {
    recorded_.capability_major = at::cuda::getCurrentDeviceProperties()->major;
    return {};
  }

  void run(OwnCall& call) const override {
    if (!call.wants(0)) return;
    const at::Tensor& query = call.tensor(AttentionForm::kQuery);
    at::Tensor key = call.tensor(AttentionForm::kKey);
    at::Tensor value = call.tensor(AttentionForm::kValue);
    const std::int64_t heads = query.size(1);
    const std::int64_t groups = key.size(1);
    check_attention(query, key, value);
    const at::DimVector sizes{query.size(0), query.size(2), heads, query.size(3)};
    if (query.numel() == 0 || key.size(2) == 0) {
      call.result(0, sizes).zero_();
      return;
    }
    const at::DimVector scores{query.size(0), heads, query.size(2), key.size(2)};
    std::optional<at::Tensor> mask;
    if (masked_) mask = mask_to_add(call.tensor(AttentionForm::kMask), causal_, query.options(), scores);
    const bool shared = heads != groups;
    AttentionCandidate taken = choose(query, key);
    if (taken.kernel == AttentionKernel::kCudnn) {
      if (attend_with_cudnn(query, key, value, *mask, scores, call)) return;
      taken = choose(query, key);
    }
    if (mask) mask = mask->expand(scores);
    const bool repeated = shared && !taken.shares_heads;
    if (repeated) {
      key = repeat_heads(key, heads / groups);
      value = repeat_heads(value, heads / groups);
    }
    const at::Tensor result =
        at::scaled_dot_product_attention(query, key, value, mask, 0.0, causal_ && !mask, scale_, shared && !repeated);
    call.adopt(0, result.transpose(1, 2), sizes);
  }

 private:
  AttentionCandidate choose(const at::Tensor& query, const at::Tensor& key) const {
    AttentionCase now = recorded_;
    now.shared_heads = query.size(1) != key.size(1);
    now.width = query.size(3);
    now.square = query.size(2) == key.size(2);
    now.one_key = key.size(2) == 1;
    now.capability_major = at::cuda::getCurrentDeviceProperties()->major;
    now.cudnn_refused = refused_;
    return find_taken(choose_attention(now));
  }

  // False, with a warning, when cuDNN has no kernel for the shapes on this GPU; it is not asked again.
  bool attend_with_cudnn(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                         const at::Tensor& mask, at::IntArrayRef scores, OwnCall& call) const {
    at::Tensor result;
    try {
      result = std::get<0>(at::_scaled_dot_product_cudnn_attention(query, key, value, mask.expand(scores), false, 0.0,
                                                                   false, false, scale_));
    } catch (const c10::Error& error) {
      if (ran_out_of_memory(error, query.get_device())) throw;
      refused_ = true;
      TORCH_WARN("cuDNN has no attention for these sizes, libtorch's kernel goes on: ", first_line(error));
      return false;
    }
    // The query's layout is the result's too: in models [batch, queries, heads, width] transposed, which is what is
    // wanted. Another one is copied when it is adopted.
    if (result.stride(-1) != 1) result = result.contiguous();
    clear_blind_rows(mask.expand(scores), result);
    call.adopt(0, result.transpose(1, 2), {scores[0], scores[2], scores[1], query.size(3)});
    return true;
  }

  // A row that may look nowhere must be zero; cuDNN gives it a value.
  void clear_blind_rows(const at::Tensor& mask, at::Tensor& result) const {
    gpu::BlindRowsCall call;
    call.dtype = dtype_;
    call.mask = mask.const_data_ptr();
    call.result = result.mutable_data_ptr();
    call.batches = result.size(0);
    call.heads = result.size(1);
    call.queries = result.size(2);
    call.width = result.size(3);
    call.keys = mask.stride(3) == 0 ? 1 : mask.size(3);
    const auto stride = [](const at::Tensor& tensor, std::int64_t axis) {
      return tensor.size(axis) == 1 ? 0 : tensor.stride(axis);  // of one element a stride may be anything
    };
    call.mask_batch_stride = stride(mask, 0);
    call.mask_head_stride = stride(mask, 1);
    call.mask_query_stride = stride(mask, 2);
    call.mask_key_stride = mask.stride(3);
    call.result_batch_stride = stride(result, 0);
    call.result_head_stride = stride(result, 1);
    call.result_query_stride = stride(result, 2);
    launch(gpu::plan_blind_rows(call, device_shape()));
  }

  AttentionCase recorded_;
  DType dtype_;
  bool masked_;
  double scale_;
  bool causal_;
  mutable std::atomic<bool> refused_ = false;
};

}  // namespace

Result<std::unique_ptr<OwnNode>> bind_cuda_attention(const OwnBinding& binding) {
  KPT_ASSIGN_OR_RETURN(const AttentionForm form, read_attention_form(binding));
  const auto& query = binding.find_type(AttentionForm::kQuery)->dims;
  const auto& key = binding.find_type(AttentionForm::kKey)->dims;
  AttentionCase recorded;
  recorded.dtype = form.dtype;
  recorded.masked = form.masked;
  recorded.causal = form.causal;
  recorded.shared_heads = query[1] != key[1];
  recorded.width = query[3].constant();
  if (query[2] == key[2]) {
    recorded.square = true;
  } else if (query[2].constant() && key[2].constant()) {
    recorded.square = false;
  }
  if (key[2].constant()) recorded.one_key = *key[2].constant() == 1;
  return std::unique_ptr<OwnNode>(std::make_unique<AttentionNode>(recorded, form.scale));
}

}  // namespace kpt::aten
