// kpt.linear_int8 and kpt.linear_fp8(input, weight, scale, bias, residual, activation) -> result: the input's rows are
// quantized to what the GPU's matrix cores multiply, and one kernel of ours does the product and all behind it, as in
// engines/native. Weights of FP8 are float8_e4m3fn whatever the instructions take; the kernel reads them so.
#include <optional>

#include <ATen/Functions.h>
#include <fmt/format.h>

#include "engines/aten/module/gpu_launch.h"
#include "engines/aten/module/tensors.h"
#include "engines/aten/module/typed_failure.h"
#include "engines/aten/rocm/rocm_own_nodes.h"
#include "kernels/gpu/convert.h"
#include "kernels/gpu/matrix.h"

namespace kpt::aten {
namespace {

class QuantizedLinearNode final : public OwnNode {
 public:
  struct Form {
    DType weight = DType::kInt8;  // or kFloat8E4M3FN
    DType input = DType::kFloat32;
    DType result = DType::kFloat32;
    ir::Activation activation = ir::Activation::kNone;
  };

  explicit QuantizedLinearNode(const Form& form) : form_(form) {}

  std::string describe() const override {
    return fmt::format("quantize_rows of {}, then a product of {} on matrix cores with all behind it",
                       to_string(form_.input), form_.weight == DType::kInt8 ? "int8" : "FP8");
  }

  void run(OwnCall& call) const override {
    if (!call.wants(0)) return;
    const ScaledLinear product = take_scaled_linear(call);
    if (product.result->numel() == 0) return;
    const std::int64_t rows = product.result->numel() / product.columns();
    multiply(product, quantize(*product.input, rows, product.scale.options()));
  }

 private:
  struct Rows {
    at::Tensor codes;  // [rows, depth]
    at::Tensor scale;  // [rows], float32
    DType dtype;
  };

  Rows quantize(const at::Tensor& input, std::int64_t rows, const at::TensorOptions& floats) const {
    const gpu::DeviceShape shape = device_shape();
    const std::optional<DType> type = gpu::find_row_type(form_.weight, shape.matrix);
    require_as(StatusCode::kMatrixUnit, type.has_value(), "the GPU has no matrix cores for the weight's type");
    const std::int64_t depth = input.size(-1);
    const at::Tensor codes = at::empty({rows, depth}, input.options().dtype(to_scalar_type(*type)));
    if (depth == 0) return {codes, at::ones({rows}, floats), *type};
    Rows quantized{codes, at::empty({rows}, floats), *type};
    const DenseRows given = dense_rows(input);
    gpu::QuantizeRowsCall rounding;
    rounding.from = form_.input;
    rounding.to = *type;
    rounding.input = given.data();
    rounding.output = quantized.codes.mutable_data_ptr();
    rounding.scale = quantized.scale.mutable_data_ptr<float>();
    rounding.rows = rows;
    rounding.width = depth;
    rounding.input_stride = given.stride;
    launch(gpu::plan_quantize_rows(rounding, shape));
    return quantized;
  }

  void multiply(const ScaledLinear& operands, const Rows& input) const {
    gpu::MatrixCall product;
    product.dtype = input.dtype;
    product.activation = static_cast<gpu::Activation>(form_.activation);
    product.input = input.codes.const_data_ptr();
    product.weight = operands.weight.const_data_ptr();
    product.row_scale = input.scale.const_data_ptr<float>();
    product.column_scale = operands.scale.const_data_ptr<float>();
    if (operands.bias) {
      product.bias = operands.bias->const_data_ptr();
      product.bias_dtype = dtype_of(*operands.bias);
    }
    at::Tensor residual;
    if (operands.residual != nullptr) {
      residual = operands.residual->contiguous();
      product.residual = residual.const_data_ptr();
    }
    product.output = operands.result->mutable_data_ptr();
    product.output_dtype = form_.result;
    product.rows = input.codes.size(0);
    product.columns = operands.columns();
    product.depth = product.input_stride = product.weight_stride = operands.weight.size(1);
    launch(gpu::plan_matrix(product, device_shape()));
  }

  Form form_;
};

Result<std::unique_ptr<OwnNode>> bind(const OwnBinding& binding, DType weight) {
  KPT_RETURN_IF_ERROR(binding.check_tensor(ScaledLinear::kInput, kGpuReals, 1));
  const ir::TensorType& input = *binding.find_type(ScaledLinear::kInput);
  QuantizedLinearNode::Form form;
  form.weight = weight;
  form.input = input.dtype;
  // Of the input's type, or float32 with one of 16 bits, or one of 16 bits with float32.
  form.result = binding.result_type(0).dtype;
  const bool is_half = form.result == DType::kBFloat16 || form.result == DType::kFloat16;
  if (form.result != DType::kFloat32 && !(is_half && form.input == DType::kFloat32)) form.result = form.input;
  KPT_RETURN_IF_ERROR(binding.check_tensor(ScaledLinear::kWeight, {weight}, 2, 2));
  KPT_RETURN_IF_ERROR(binding.check_tensor(ScaledLinear::kScale, {DType::kFloat32}, 1, 1));
  KPT_RETURN_IF_ERROR(binding.check_optional_tensor(ScaledLinear::kBias, kGpuReals, 1, 1));
  KPT_RETURN_IF_ERROR(
      binding.check_optional_tensor(ScaledLinear::kResidual, {form.result}, input.dims.size(), input.dims.size()));
  KPT_RETURN_IF_ERROR(binding.check_result(0, form.result, input.dims.size()));
  KPT_ASSIGN_OR_RETURN(form.activation, binding.activation(ScaledLinear::kActivation));
  return std::unique_ptr<OwnNode>(std::make_unique<QuantizedLinearNode>(form));
}

}  // namespace

Result<std::unique_ptr<OwnNode>> bind_rocm_linear_fp8(const OwnBinding& binding) {
  return bind(binding, DType::kFloat8E4M3FN);
}

Result<std::unique_ptr<OwnNode>> bind_rocm_linear_int8(const OwnBinding& binding) {
  return bind(binding, DType::kInt8);
}

}  // namespace kpt::aten
