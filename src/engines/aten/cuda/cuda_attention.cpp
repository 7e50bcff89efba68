// kpt.attention(query, key, value, mask, scale, causal) -> result: the better of libtorch's flash and
// memory-efficient kernels for the types and the mask.
#include <limits>

#include <ATen/Functions.h>
#include <fmt/format.h>

#include "engines/aten/cuda/cuda_own_nodes.h"

namespace kpt::aten {
namespace {

enum Position : std::size_t { kQuery, kKey, kValue, kMask, kScale, kCausal };

class AttentionNode final : public OwnNode {
 public:
  AttentionNode(DType dtype, bool masked, double scale, bool causal)
      : dtype_(dtype), masked_(masked), scale_(scale), causal_(causal) {}

  std::string describe() const override {
    return fmt::format("libtorch's attention ({}{}{})", to_string(dtype_), masked_ ? ", mask" : "",
                       causal_ ? ", causal" : "");
  }

  void run(OwnCall& call) const override {
    if (!call.wants(0)) return;
    const at::Tensor& query = call.tensor(kQuery);
    at::Tensor key = call.tensor(kKey);
    at::Tensor value = call.tensor(kValue);
    const std::int64_t heads = query.size(1);
    const std::int64_t groups = key.size(1);
    OwnCall::require(key.sizes() == value.sizes(), "key and value are not of the same sizes");
    OwnCall::require(key.size(0) == query.size(0) && key.size(3) == query.size(3),
                     "the key has another batch or width than the query");
    const at::DimVector sizes{query.size(0), query.size(2), heads, query.size(3)};
    if (query.numel() == 0 || key.size(2) == 0) {
      call.result(0, sizes).zero_();
      return;
    }
    OwnCall::require(groups > 0 && heads % groups == 0,
                     "the heads of the query are no multiple of the heads of the key");
    std::optional<at::Tensor> mask;
    if (masked_) mask = spread_mask(call.tensor(kMask), query, key);
    // Only kernels for 16-bit types without a mask know shared heads.
    const bool shared = heads != groups;
    const bool repeated = shared && (mask || dtype_ == DType::kFloat32);
    if (repeated) {
      key = repeat_heads(key, heads / groups);
      value = repeat_heads(value, heads / groups);
    }
    const at::Tensor result =
        at::scaled_dot_product_attention(query, key, value, mask, 0.0, causal_ && !mask, scale_, shared && !repeated);
    call.adopt(0, result.transpose(1, 2), sizes);
  }

 private:
  static at::Tensor repeat_heads(const at::Tensor& tensor, std::int64_t times) {
    return tensor.unsqueeze(2)
        .expand({tensor.size(0), tensor.size(1), times, tensor.size(2), tensor.size(3)})
        .reshape({tensor.size(0), tensor.size(1) * times, tensor.size(2), tensor.size(3)});
  }

  // To be added, broadcast to [batch, heads, queries, keys]; a causal node's triangle is part of it, since no kernel
  // takes both. Truth values become zeros and minus infinities here: with them some kernels of libtorch's give rows
  // that may look nowhere a value, which must be zero.
  at::Tensor spread_mask(const at::Tensor& given, const at::Tensor& query, const at::Tensor& key) const {
    const at::Tensor never = at::scalar_tensor(-std::numeric_limits<double>::infinity(), query.options());
    at::Tensor mask = given;
    if (mask.scalar_type() == at::kBool) mask = at::where(mask, at::scalar_tensor(0.0, query.options()), never);
    if (causal_) {
      const at::Tensor triangle = at::ones({query.size(2), key.size(2)}, query.options().dtype(at::kBool)).tril();
      mask = at::where(triangle, mask, never);
    }
    const at::DimVector sizes{query.size(0), query.size(1), query.size(2), key.size(2)};
    for (std::int64_t axis = 0; axis < mask.dim(); ++axis) {
      const auto wanted = sizes[static_cast<std::size_t>(4 - mask.dim() + axis)];
      OwnCall::require(mask.size(axis) == wanted || mask.size(axis) == 1,
                       "the mask cannot be broadcast to batch, heads, queries and keys");
    }
    return mask.expand(sizes);
  }

  DType dtype_;
  bool masked_;
  double scale_;
  bool causal_;
};

}  // namespace

Result<std::unique_ptr<OwnNode>> bind_cuda_attention(const OwnBinding& binding) {
  KPT_RETURN_IF_ERROR(binding.check_tensor(kQuery, {DType::kFloat32, DType::kBFloat16, DType::kFloat16}, 4, 4));
  const DType dtype = binding.find_type(kQuery)->dtype;
  KPT_RETURN_IF_ERROR(binding.check_tensor(kKey, {dtype}, 4, 4));
  KPT_RETURN_IF_ERROR(binding.check_tensor(kValue, {dtype}, 4, 4));
  KPT_RETURN_IF_ERROR(binding.check_optional_tensor(kMask, {DType::kBool, dtype}, 0, 4));
  KPT_RETURN_IF_ERROR(binding.check_result(0, dtype, 4));
  KPT_ASSIGN_OR_RETURN(const double scale, binding.number(kScale));
  KPT_ASSIGN_OR_RETURN(const bool causal, binding.truth(kCausal));
  return std::unique_ptr<OwnNode>(std::make_unique<AttentionNode>(dtype, !binding.is_none(kMask), scale, causal));
}

}  // namespace kpt::aten
