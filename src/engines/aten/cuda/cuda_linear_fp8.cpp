// kpt.linear_fp8(input, weight, scale, bias, residual, activation) -> result: rows of the input are rounded to FP8 by a
// kernel of ours, the product is libtorch's scaled one with a scale per row on both sides, which writes bfloat16.
#include <ATen/Functions.h>
#include <fmt/format.h>

#include "engines/aten/cuda/cuda_launch.h"
#include "engines/aten/cuda/cuda_own_nodes.h"
#include "engines/aten/module/tensors.h"
#include "kernels/gpu/convert.h"

namespace kpt::aten {
namespace {

enum Position : std::size_t { kInput, kWeight, kScale, kBias, kResidual, kActivation };

class LinearFp8Node final : public OwnNode {
 public:
  LinearFp8Node(DType input, DType result, ir::Activation activation)
      : input_(input), result_(result), activation_(activation) {}

  std::string describe() const override {
    return fmt::format("quantize_rows of {}, then libtorch's FP8 product with scales per row", to_string(input_));
  }

  void run(OwnCall& call) const override {
    if (!call.wants(0)) return;
    const at::Tensor& input = call.tensor(kInput);
    const at::Tensor& weight = call.tensor(kWeight);
    const at::Tensor& scale = call.tensor(kScale);
    const at::Tensor* bias = call.find_tensor(kBias);
    const at::Tensor* residual = call.find_tensor(kResidual);
    const std::int64_t outer = weight.size(0);
    const std::int64_t inner = weight.size(1);
    OwnCall::require(input.size(-1) == inner, "the input's rows are not as wide as the weight's");
    OwnCall::require(scale.size(0) == outer && scale.is_contiguous() && weight.is_contiguous(),
                     "weight and scale are not contiguous or do not belong together");
    OwnCall::require(outer % 16 == 0 && inner % 16 == 0 && inner > 0, "the weight's sizes are no multiples of 16");
    OwnCall::require(bias == nullptr || bias->size(0) == outer, "the bias does not fit the weight");
    at::DimVector sizes(input.sizes());
    sizes.back() = outer;
    if (input.numel() == 0) {
      call.result(0, sizes);
      return;
    }
    const DenseRows rows = dense_rows(input);
    const at::Tensor small = at::empty({rows.rows, inner}, weight.options());
    const at::Tensor row_scale = at::empty({rows.rows, 1}, scale.options());
    gpu::QuantizeRowsCall quantize;
    quantize.from = input_;
    quantize.to = DType::kFloat8E4M3FN;
    quantize.input = rows.data();
    quantize.output = small.mutable_data_ptr();
    quantize.scale = row_scale.mutable_data_ptr<float>();
    quantize.rows = rows.rows;
    quantize.width = inner;
    quantize.input_stride = rows.stride;
    launch(gpu::plan_quantize_rows(quantize, device_shape()));
    at::Tensor product = at::_scaled_mm(small, weight.t(), row_scale, scale.view({1, outer}), {}, {}, at::kBFloat16,
                                        /*use_fast_accum=*/true);
    if (result_ != DType::kBFloat16) product = product.to(at::kFloat);
    product = product.view(sizes);
    finish_product(product, bias, residual, activation_);
    call.adopt(0, product, sizes);
  }

 private:
  DType input_;
  DType result_;
  ir::Activation activation_;
};

}  // namespace

Result<std::unique_ptr<OwnNode>> bind_cuda_linear_fp8(const OwnBinding& binding) {
  KPT_RETURN_IF_ERROR(binding.check_tensor(kInput, {DType::kFloat32, DType::kBFloat16}, 1));
  const ir::TensorType& input = *binding.find_type(kInput);
  KPT_RETURN_IF_ERROR(binding.check_tensor(kWeight, {DType::kFloat8E4M3FN}, 2, 2));
  KPT_RETURN_IF_ERROR(binding.check_tensor(kScale, {DType::kFloat32}, 1, 1));
  KPT_RETURN_IF_ERROR(binding.check_optional_tensor(kBias, {DType::kFloat32, DType::kBFloat16}, 1, 1));
  const DType result = binding.result_type(0).dtype == DType::kFloat32 ? DType::kFloat32 : DType::kBFloat16;
  KPT_RETURN_IF_ERROR(binding.check_optional_tensor(kResidual, {result}, input.dims.size(), input.dims.size()));
  KPT_RETURN_IF_ERROR(binding.check_result(0, result, input.dims.size()));
  KPT_ASSIGN_OR_RETURN(const ir::Activation activation, binding.activation(kActivation));
  return std::unique_ptr<OwnNode>(std::make_unique<LinearFp8Node>(input.dtype, result, activation));
}

}  // namespace kpt::aten
