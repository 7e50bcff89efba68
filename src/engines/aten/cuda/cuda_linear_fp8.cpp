// kpt.linear_fp8 and kpt.linear_fp8_e5m2(input, weight, scale, bias, residual, activation) -> result: the input is
// rounded to E4M3 or E5M2 by a kernel of ours, the product is libtorch's scaled one with a scale per row on both sides,
// which writes bfloat16. One scale for the whole input (nvidia.fp8_scaling) is the same number in all rows: the
// weight's rows keep their own. Weights are E4M3: cuBLASLt multiplies that by either, and no E5M2 by E5M2.
#include <ATen/Functions.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <fmt/format.h>

#include "engines/aten/cuda/cuda_own_nodes.h"
#include "engines/aten/module/gpu_launch.h"
#include "engines/aten/module/tensors.h"
#include "engines/aten/module/typed_failure.h"
#include "kernels/gpu/convert.h"

namespace kpt::aten {
namespace {

enum Position : std::size_t { kInput, kWeight, kScale, kBias, kResidual, kActivation };

// The greatest magnitudes of a node's last inputs, on the device, where captured runs change them too. Runs of a model
// queue one after the other, whoever asks for them, so it needs no lock.
class MagnitudeRing {
 public:
  explicit MagnitudeRing(std::int32_t capacity) : capacity_(capacity) {}

  // As plan_quantize_tensor() takes it; empty before begin().
  gpu::MagnitudeHistory history(const at::TensorOptions& floats) {
    if (!magnitudes_.defined()) {
      // Memory of a captured run goes with that run. The first run of a shape is never captured, so this is not met.
      OwnCall::require(c10::cuda::currentStreamCaptureStatusMayInitCtx() == c10::cuda::CaptureStatus::None,
                       "its history cannot begin in a captured run");
      position_ = at::zeros({1}, floats.dtype(at::kInt));
      magnitudes_ = at::zeros({capacity_}, floats);  // last: it says that both are there
    }
    return {magnitudes_.mutable_data_ptr<float>(), position_.mutable_data_ptr<std::int32_t>(), capacity_, begun_};
  }
  // A run has been queued.
  void begin() { begun_ = true; }

 private:
  std::int32_t capacity_;
  at::Tensor magnitudes_;
  at::Tensor position_;
  bool begun_ = false;
};

class LinearFp8Node final : public OwnNode {
 public:
  struct Form {
    DType input = DType::kFloat32;
    DType codes = DType::kFloat8E4M3FN;  // of the input, or kFloat8E5M2
    DType result = DType::kFloat32;
    ir::Activation activation = ir::Activation::kNone;
    Fp8Scaling scaling = Fp8Scaling::kRow;
    std::int32_t history = 0;  // runs, of kDelayed
  };

  explicit LinearFp8Node(const Form& form) : form_(form), ring_(form.history) {}

  std::string describe() const override {
    const std::string types = fmt::format("of {} to {}", to_string(form_.input), to_string(form_.codes));
    if (form_.scaling == Fp8Scaling::kRow) {
      return fmt::format("quantize_rows {}, then libtorch's FP8 product with scales per row", types);
    }
    if (form_.scaling == Fp8Scaling::kTensor) {
      return fmt::format("quantize_tensor {} with one scale, then libtorch's FP8 product", types);
    }
    return fmt::format("quantize_tensor {} with one scale from the last {} runs, then libtorch's FP8 product", types,
                       form_.history);
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
    require_as(StatusCode::kPrecisionCompilation,
               scale.size(0) == outer && scale.is_contiguous() && weight.is_contiguous(),
               "weight and scale are not contiguous or do not belong together");
    require_as(StatusCode::kPrecisionCompilation, outer % 16 == 0 && inner % 16 == 0 && inner > 0,
               "the weight's sizes are no multiples of 16");
    OwnCall::require(bias == nullptr || bias->size(0) == outer, "the bias does not fit the weight");
    at::DimVector sizes(input.sizes());
    sizes.back() = outer;
    if (input.numel() == 0) {
      call.result(0, sizes);
      return;
    }
    const DenseRows rows = dense_rows(input);
    const at::Tensor small = at::empty({rows.rows, inner}, weight.options().dtype(to_scalar_type(form_.codes)));
    const at::Tensor row_scale = at::empty({rows.rows, 1}, scale.options());
    if (form_.scaling == Fp8Scaling::kRow) {
      round_rows(rows, small, row_scale);
    } else {
      round_tensor(rows, small, row_scale);
    }
    at::Tensor product = at::_scaled_mm(small, weight.t(), row_scale, scale.view({1, outer}), {}, {}, at::kBFloat16,
                                        /*use_fast_accum=*/true);
    if (form_.result != DType::kBFloat16) product = product.to(at::kFloat);
    product = product.view(sizes);
    finish_product(product, bias, residual, form_.activation);
    call.adopt(0, product, sizes);
  }

 private:
  void round_rows(const DenseRows& rows, const at::Tensor& small, const at::Tensor& scale) const {
    gpu::QuantizeRowsCall quantize;
    quantize.from = form_.input;
    quantize.to = form_.codes;
    quantize.input = rows.data();
    quantize.output = small.mutable_data_ptr();
    quantize.scale = scale.mutable_data_ptr<float>();
    quantize.rows = rows.rows;
    quantize.width = rows.width;
    quantize.input_stride = rows.stride;
    launch(gpu::plan_quantize_rows(quantize, device_shape()));
  }

  void round_tensor(const DenseRows& rows, const at::Tensor& small, const at::Tensor& scale) const {
    gpu::QuantizeTensorCall quantize;
    if (form_.scaling == Fp8Scaling::kDelayed) quantize.history = ring_.history(scale.options());
    // Without earlier runs its magnitudes are looked for first, in one piece.
    const bool gaps = rows.stride != rows.width && !quantize.history.begun;
    const at::Tensor dense = gaps ? rows.owner.contiguous() : rows.owner;
    quantize.from = form_.input;
    quantize.to = form_.codes;
    quantize.input = dense.const_data_ptr();
    quantize.output = small.mutable_data_ptr();
    quantize.scale = scale.mutable_data_ptr<float>();
    quantize.rows = rows.rows;
    quantize.width = rows.width;
    quantize.input_stride = gaps ? rows.width : rows.stride;
    const gpu::DeviceShape shape = device_shape();
    const auto words = static_cast<std::int64_t>(gpu::quantize_tensor_workspace(quantize, shape) / sizeof(float));
    const at::Tensor workspace = at::empty({words}, scale.options());
    quantize.workspace = workspace.mutable_data_ptr();
    launch(gpu::plan_quantize_tensor(quantize, shape));
    ring_.begin();
  }

  Form form_;
  mutable MagnitudeRing ring_;  // of kDelayed
};

Result<std::unique_ptr<OwnNode>> bind(const OwnBinding& binding, DType codes) {
  KPT_RETURN_IF_ERROR(binding.check_tensor(kInput, {DType::kFloat32, DType::kBFloat16}, 1));
  const ir::TensorType& input = *binding.find_type(kInput);
  KPT_RETURN_IF_ERROR(binding.check_tensor(kWeight, {DType::kFloat8E4M3FN}, 2, 2));
  KPT_RETURN_IF_ERROR(binding.check_tensor(kScale, {DType::kFloat32}, 1, 1));
  KPT_RETURN_IF_ERROR(binding.check_optional_tensor(kBias, {DType::kFloat32, DType::kBFloat16}, 1, 1));
  const DType result = binding.result_type(0).dtype == DType::kFloat32 ? DType::kFloat32 : DType::kBFloat16;
  KPT_RETURN_IF_ERROR(binding.check_optional_tensor(kResidual, {result}, input.dims.size(), input.dims.size()));
  KPT_RETURN_IF_ERROR(binding.check_result(0, result, input.dims.size()));
  KPT_ASSIGN_OR_RETURN(const ir::Activation activation, binding.activation(kActivation));
  return std::unique_ptr<OwnNode>(std::make_unique<LinearFp8Node>(LinearFp8Node::Form{
      input.dtype, codes, result, activation, binding.policy().fp8_scaling, binding.policy().fp8_history}));
}

}  // namespace

Result<std::unique_ptr<OwnNode>> bind_cuda_linear_fp8(const OwnBinding& binding) {
  return bind(binding, DType::kFloat8E4M3FN);
}

Result<std::unique_ptr<OwnNode>> bind_cuda_linear_fp8_e5m2(const OwnBinding& binding) {
  return bind(binding, DType::kFloat8E5M2);
}

}  // namespace kpt::aten
