// kpt.attention(query, key, value, mask, scale, causal) -> result
#include <fmt/format.h>

#include "engines/aten/module/own_nodes.h"
#include "engines/aten/module/typed_failure.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/simd_kernels.h"

namespace kpt::aten {
namespace {

// Beyond this a head is a mistake, and the memory for its blocks could not be had.
constexpr std::int64_t kMostWidth = 65536;

class AttentionNode final : public OwnNode {
 public:
  enum Position : std::size_t { kQuery, kKey, kValue, kMask, kScale, kCausal };

  AttentionNode(DType dtype, kernels::MaskKind mask, float scale, bool causal)
      : dtype_(dtype), mask_(mask), scale_(scale), causal_(causal) {}

  std::string describe() const override {
    constexpr const char* kMasks[] = {"no mask", "bool mask", "added mask"};
    return fmt::format("attention_{} ({}, {}{}, blocks with an online softmax in float32)",
                       kernels::simd_kernels().name, to_string(dtype_), kMasks[static_cast<std::size_t>(mask_)],
                       causal_ ? ", causal" : "");
  }

  void run(OwnCall& call) const override {
    if (!call.wants(0)) return;
    const at::Tensor& query = call.tensor(kQuery);
    const at::Tensor& key = call.tensor(kKey);
    const at::Tensor& value = call.tensor(kValue);
    kernels::Attention attention;
    attention.dtype = dtype_;
    attention.batch = query.size(0);
    attention.heads = query.size(1);
    attention.queries = query.size(2);
    attention.width = query.size(3);
    attention.groups = key.size(1);
    attention.keys = key.size(2);
    require(key.sizes() == value.sizes(), "key and value are not of the same sizes");
    require(key.size(0) == attention.batch && key.size(3) == attention.width,
            "the key has another batch or width than the query");
    attention.query = operand(query);
    attention.key = operand(key);
    attention.value = operand(value);
    attention.mask_kind = mask_;
    if (mask_ != kernels::MaskKind::kNone) attention.mask = mask_operand(call.tensor(kMask), attention);
    attention.scale = scale_;
    attention.causal = causal_;
    at::Tensor& result = call.result(0, {attention.batch, attention.queries, attention.heads, attention.width});
    if (result.numel() == 0) return;
    require(attention.groups > 0 && attention.heads % attention.groups == 0,
            "the heads of the query are no multiple of the heads of the key");
    require(attention.width <= kMostWidth, "its heads are wider than 65536 elements");
    attention.result = result.mutable_data_ptr();
    const kernels::Parallel parallel = call.parallel();
    const kernels::AttentionPlan plan = kernels::plan_attention(attention, parallel.threads);
    kernels::run_attention(attention, plan, parallel,
                           call.workspace(kernels::attention_workspace(plan, parallel.threads)));
  }

 private:
  static kernels::AttentionOperand operand(const at::Tensor& tensor) {
    kernels::AttentionOperand operand;
    operand.data = tensor.const_data_ptr();
    for (int axis = 0; axis < 4; ++axis) operand.strides[axis] = tensor.stride(axis);
    return operand;
  }

  static void require(bool holds, const char* what) { require_as(StatusCode::kAttention, holds, what); }

  // Broadcast to [batch, heads, queries, keys].
  static kernels::AttentionOperand mask_operand(const at::Tensor& mask, const kernels::Attention& attention) {
    const std::int64_t sizes[4] = {attention.batch, attention.heads, attention.queries, attention.keys};
    kernels::AttentionOperand operand;
    operand.data = mask.const_data_ptr();
    for (std::int64_t axis = 0; axis < mask.dim(); ++axis) {
      const std::int64_t place = 4 - mask.dim() + axis;
      require(mask.size(axis) == sizes[place] || mask.size(axis) == 1,
              "the mask cannot be broadcast to batch, heads, queries and keys");
      operand.strides[place] = mask.size(axis) == 1 ? 0 : mask.stride(axis);
    }
    return operand;
  }

  DType dtype_;
  kernels::MaskKind mask_;
  float scale_;
  bool causal_;
};

}  // namespace

Result<std::unique_ptr<OwnNode>> bind_attention(const OwnBinding& binding) {
  KPT_RETURN_IF_ERROR(
      binding.check_tensor(AttentionNode::kQuery, {DType::kFloat32, DType::kBFloat16, DType::kFloat16}, 4, 4));
  const DType dtype = binding.find_type(AttentionNode::kQuery)->dtype;
  KPT_RETURN_IF_ERROR(binding.check_tensor(AttentionNode::kKey, {dtype}, 4, 4));
  KPT_RETURN_IF_ERROR(binding.check_tensor(AttentionNode::kValue, {dtype}, 4, 4));
  KPT_RETURN_IF_ERROR(binding.check_optional_tensor(AttentionNode::kMask, {DType::kBool, dtype}, 0, 4));
  KPT_RETURN_IF_ERROR(binding.check_result(0, dtype, 4));
  KPT_ASSIGN_OR_RETURN(const double scale, binding.number(AttentionNode::kScale));
  KPT_ASSIGN_OR_RETURN(const bool causal, binding.truth(AttentionNode::kCausal));
  kernels::MaskKind mask = kernels::MaskKind::kNone;
  if (!binding.is_none(AttentionNode::kMask)) {
    mask = binding.find_type(AttentionNode::kMask)->dtype == DType::kBool ? kernels::MaskKind::kBool
                                                                          : kernels::MaskKind::kAdded;
  }
  return std::unique_ptr<OwnNode>(std::make_unique<AttentionNode>(dtype, mask, static_cast<float>(scale), causal));
}

}  // namespace kpt::aten
