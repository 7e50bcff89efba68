// kpt.linear_weight_int8 and kpt.linear_int4: weights of 8 or 4 bits, inputs as they come. Few rows are one kernel of
// ours that reads the weight as it is stored; for more, the weight is written out as floats and multiplied.
#include <ATen/Functions.h>
#include <fmt/format.h>

#include "engines/aten/module/gpu_launch.h"
#include "engines/aten/module/gpu_own_nodes.h"
#include "engines/aten/module/tensors.h"
#include "engines/aten/module/typed_failure.h"
#include "kernels/gpu/convert.h"
#include "kernels/gpu/weight_only.h"

namespace kpt::aten {

ScaledLinear take_scaled_linear(OwnCall& call, std::int64_t codes) {
  ScaledLinear product{&call.tensor(ScaledLinear::kInput),
                       call.tensor(ScaledLinear::kWeight).contiguous(),
                       call.tensor(ScaledLinear::kScale).contiguous(),
                       std::nullopt,
                       call.find_tensor(ScaledLinear::kResidual),
                       nullptr};
  const std::int64_t columns = product.columns();
  OwnCall::require(product.input->size(-1) == product.weight.size(1) * codes,
                   "the input's rows are not as wide as the weight's");
  require_as(StatusCode::kPrecisionCompilation, product.scale.size(0) == columns, "the scales do not fit the weight");
  if (const at::Tensor* given = call.find_tensor(ScaledLinear::kBias)) {
    OwnCall::require(given->size(0) == columns, "the bias does not fit the weight");
    product.bias = given->contiguous();
  }
  at::DimVector sizes(product.input->sizes());
  sizes.back() = columns;
  product.result = &call.result(0, sizes);
  OwnCall::require(product.residual == nullptr || product.residual->sizes() == product.result->sizes(),
                   "the residual is not of the result's sizes");
  return product;
}

namespace {

class WeightOnlyNode final : public OwnNode {
 public:
  struct Form {
    DType weight = DType::kInt8;  // kUInt8: two of 4 bits
    DType input = DType::kFloat32;
    DType result = DType::kFloat32;
    std::int64_t group = 0;  // of weights of 4 bits
    ir::Activation activation = ir::Activation::kNone;
  };

  explicit WeightOnlyNode(const Form& form) : form_(form) {}

  std::string describe() const override {
    return fmt::format("weight_{} of {} up to {} rows; for more, the weight written out and a {} product of {}",
                       halves() ? "i4" : "i8", to_string(form_.input), gpu::kMostWeightOnlyRows, kGpuKind.blas,
                       to_string(product_type()));
  }

  void run(OwnCall& call) const override {
    if (!call.wants(0)) return;
    ScaledLinear product = take_scaled_linear(call, halves() ? 2 : 1);
    const std::int64_t inner = product.input->size(-1);
    require_as(StatusCode::kPrecisionCompilation,
               !halves() || (inner % form_.group == 0 && product.scale.size(1) == inner / form_.group),
               "the scales do not fit the weight's groups");
    at::Tensor& result = *product.result;
    if (result.numel() == 0) return;
    if (result.numel() / product.columns() <= gpu::kMostWeightOnlyRows) {
      multiply_few(product);
      return;
    }
    // A product ends with a bias of its own type or float32.
    if (product.bias && product.bias->scalar_type() != result.scalar_type())
      product.bias = product.bias->to(at::kFloat);
    multiply_by_blas(result, *product.input, write_out(product.weight, product.scale, inner), product.find_bias(),
                     product.residual, form_.activation);
  }

 private:
  bool halves() const { return form_.weight == DType::kUInt8; }
  // The narrower of what comes and what goes: more would be rounded away on either side.
  DType product_type() const { return form_.input == DType::kFloat32 ? form_.result : form_.input; }

  void multiply_few(const ScaledLinear& operands) const {
    gpu::WeightOnlyCall product;
    product.columns = operands.columns();
    product.depth = operands.input->size(-1);
    product.rows = operands.result->numel() / product.columns;
    product.weight_dtype = form_.weight;
    product.weight = operands.weight.const_data_ptr();
    product.scale = operands.scale.const_data_ptr<float>();
    product.group = form_.group;
    product.activation = static_cast<gpu::Activation>(form_.activation);
    DenseRows rows;
    if (product.depth > 0) {
      rows = dense_rows(*operands.input);
      product.input = rows.data();
      product.input_stride = rows.stride;
    }
    product.input_dtype = form_.input;
    if (operands.bias) {
      product.bias = operands.bias->const_data_ptr();
      product.bias_dtype = dtype_of(*operands.bias);
    }
    DenseRows added;
    if (operands.residual != nullptr) {
      added = dense_rows(*operands.residual);
      product.residual = added.data();
      product.residual_stride = added.stride;
      product.residual_dtype = form_.result;
    }
    product.output = operands.result->mutable_data_ptr();
    product.output_dtype = form_.result;
    launch(gpu::plan_weight_only(product, device_shape()));
  }

  // The weight as numbers of the product's type, in memory of this run.
  at::Tensor write_out(const at::Tensor& weight, const at::Tensor& scale, std::int64_t inner) const {
    const DType type = product_type();
    at::Tensor wide = at::empty({weight.size(0), inner}, weight.options().dtype(to_scalar_type(type)));
    if (halves()) {
      gpu::UnpackInt4Call unpack;
      unpack.input = weight.const_data_ptr();
      unpack.output = wide.mutable_data_ptr();
      unpack.to = type;
      unpack.scale = scale.const_data_ptr<float>();
      unpack.count = wide.numel();
      unpack.group = form_.group;
      launch(gpu::plan_unpack_int4(unpack, device_shape()));
      return wide;
    }
    gpu::ConvertCall convert;
    convert.from = DType::kInt8;
    convert.to = type;
    convert.input = weight.const_data_ptr();
    convert.output = wide.mutable_data_ptr();
    convert.count = wide.numel();
    convert.scale = scale.const_data_ptr<float>();
    convert.row_width = inner;
    launch(gpu::plan_convert(convert, device_shape()));
    return wide;
  }

  Form form_;
};

Result<std::unique_ptr<OwnNode>> bind(const OwnBinding& binding, WeightOnlyNode::Form form) {
  KPT_RETURN_IF_ERROR(binding.check_tensor(ScaledLinear::kInput, kGpuReals, 1));
  const ir::TensorType& input = *binding.find_type(ScaledLinear::kInput);
  form.input = input.dtype;
  // Of the input's type, or float32 with one of 16 bits, or bfloat16 with float32.
  form.result = binding.result_type(0).dtype;
  const bool either =
      form.result == DType::kFloat32 || (form.result == DType::kBFloat16 && form.input == DType::kFloat32);
  if (!either) form.result = form.input;
  KPT_RETURN_IF_ERROR(binding.check_tensor(ScaledLinear::kWeight, {form.weight}, 2, 2));
  const std::size_t scale_rank = form.weight == DType::kUInt8 ? 2 : 1;
  KPT_RETURN_IF_ERROR(binding.check_tensor(ScaledLinear::kScale, {DType::kFloat32}, scale_rank, scale_rank));
  KPT_RETURN_IF_ERROR(binding.check_optional_tensor(ScaledLinear::kBias, kGpuReals, 1, 1));
  KPT_RETURN_IF_ERROR(
      binding.check_optional_tensor(ScaledLinear::kResidual, {form.result}, input.dims.size(), input.dims.size()));
  KPT_RETURN_IF_ERROR(binding.check_result(0, form.result, input.dims.size()));
  KPT_ASSIGN_OR_RETURN(form.activation, binding.activation(ScaledLinear::kActivation));
  return std::unique_ptr<OwnNode>(std::make_unique<WeightOnlyNode>(form));
}

}  // namespace

Result<std::unique_ptr<OwnNode>> bind_gpu_linear_weight_int8(const OwnBinding& binding) { return bind(binding, {}); }

Result<std::unique_ptr<OwnNode>> bind_gpu_linear_int4(const OwnBinding& binding) {
  WeightOnlyNode::Form form;
  form.weight = DType::kUInt8;
  KPT_ASSIGN_OR_RETURN(form.group, binding.integer(ScaledLinear::kGroup));
  if (form.group <= 0) return binding.refuse(ScaledLinear::kGroup, "is not above zero");
  return bind(binding, form);
}

}  // namespace kpt::aten
