// kpt.linear(input, weight, bias, residual, activation) -> result: cuBLAS or hipBLAS through libtorch, with what
// epilogues can do in them and the rest in one kernel of ours.
#include <ATen/Functions.h>
#include <fmt/format.h>

#include "engines/aten/module/gpu_own_nodes.h"
#include "engines/aten/module/tensors.h"

namespace kpt::aten {
namespace {

// Whether an epilogue does all of it. Its GELU is the one by tanh, good to 16-bit types only: 2e-6 of GPT-2's logits.
bool ends_in_product(DType weight, DType result, bool has_bias, bool bias_in_product, bool has_residual,
                     ir::Activation activation) {
  if (has_residual || weight != result) return false;
  if (!has_bias) return activation == ir::Activation::kNone;
  return bias_in_product && (activation == ir::Activation::kNone || activation == ir::Activation::kRelu ||
                             (activation == ir::Activation::kGeluTanh && weight != DType::kFloat32));
}

class LinearNode final : public OwnNode {
 public:
  enum Position : std::size_t { kInput, kWeight, kBias, kResidual, kActivation };

  struct Form {
    DType input = DType::kFloat32;
    DType weight = DType::kFloat32;
    DType result = DType::kFloat32;
    bool has_bias = false;
    bool bias_in_product = false;  // of the product's type, so that an epilogue can add it
    bool has_residual = false;
    ir::Activation activation = ir::Activation::kNone;
  };

  LinearNode(const Form& form, Multiply multiply, std::string description)
      : form_(form), multiply_(multiply), description_(std::move(description)) {}

  std::string describe() const override {
    if (!description_.empty()) return description_;
    std::string text = fmt::format("{} product of {}", kGpuKind.blas, to_string(form_.weight));
    if (form_.weight != form_.result) text += fmt::format(" to {}", to_string(form_.result));
    if (ends_in_product()) {
      if (form_.has_bias) text += ", bias in its epilogue";
      if (form_.activation != ir::Activation::kNone) {
        text += fmt::format(", {} too", ir::activation_name(form_.activation));
      }
      return text;
    }
    if (!form_.has_bias && !form_.has_residual && form_.activation == ir::Activation::kNone) return text;
    return text + ", then bias_activation";
  }

  void run(OwnCall& call) const override {
    if (!call.wants(0)) return;
    const at::Tensor& given = call.tensor(kInput);
    const at::Tensor& weight = call.tensor(kWeight);
    const at::Tensor* bias = call.find_tensor(kBias);
    const at::Tensor* residual = call.find_tensor(kResidual);
    const std::int64_t inner = given.size(-1);
    OwnCall::require(weight.size(1) == inner, "the input's rows are not as wide as the weight's");
    OwnCall::require(bias == nullptr || bias->size(0) == weight.size(0), "the bias does not fit the weight");
    at::DimVector sizes(given.sizes());
    sizes.back() = weight.size(0);
    at::Tensor& result = call.result(0, sizes);
    multiply_(result, given, weight, bias, residual, form_.activation);
  }

 private:
  bool ends_in_product() const {
    return kpt::aten::ends_in_product(form_.weight, form_.result, form_.has_bias, form_.bias_in_product,
                                      form_.has_residual, form_.activation);
  }

  Form form_;
  Multiply multiply_;
  std::string description_;  // empty: as the form tells
};

}  // namespace

void multiply_by_blas(at::Tensor& result, const at::Tensor& given, const at::Tensor& weight, const at::Tensor* bias,
                      const at::Tensor* residual, ir::Activation activation) {
  if (result.numel() == 0) return;
  at::Tensor flat = result.view({-1, weight.size(0)});
  const std::int64_t inner = weight.size(1);
  if (inner == 0) {
    flat.zero_();
    finish_product(result, bias, residual, activation);
    return;
  }
  at::Tensor input = given.reshape({-1, inner});
  if (input.scalar_type() != weight.scalar_type()) input = input.to(weight.scalar_type());
  const at::Tensor factor = weight.t();
  const DType type = find_dtype(weight.scalar_type()).value();
  const bool bias_in_product = bias != nullptr && bias->scalar_type() == weight.scalar_type();
  if (bias != nullptr && ends_in_product(type, find_dtype(result.scalar_type()).value(), true, bias_in_product,
                                         residual != nullptr, activation)) {
    if (activation == ir::Activation::kNone) {
      at::addmm_out(flat, *bias, input, factor);
    } else {
      at::_addmm_activation_out(flat, *bias, input, factor, 1, 1, activation == ir::Activation::kGeluTanh);
    }
    return;
  }
  if (weight.scalar_type() == flat.scalar_type()) {
    at::mm_out(flat, input, factor);
  } else if (kGpuKind.widens_products) {
    at::mm_out(flat, input, factor, flat.scalar_type());  // sums leave the product unrounded
  } else {
    flat.copy_(at::mm(input, factor));
  }
  finish_product(result, bias, residual, activation);
}

Result<std::unique_ptr<OwnNode>> bind_gpu_linear(const OwnBinding& binding) {
  return bind_gpu_linear_by(binding, multiply_by_blas, "");
}

Result<std::unique_ptr<OwnNode>> bind_gpu_linear_by(const OwnBinding& binding, Multiply multiply,
                                                    std::string description) {
  KPT_RETURN_IF_ERROR(binding.check_tensor(LinearNode::kInput, kGpuReals, 1));
  const ir::TensorType& input = *binding.find_type(LinearNode::kInput);
  KPT_RETURN_IF_ERROR(binding.check_tensor(LinearNode::kWeight, kGpuReals, 2, 2));
  LinearNode::Form form;
  form.input = input.dtype;
  form.weight = binding.find_type(LinearNode::kWeight)->dtype;
  // Beside products of one type there are those of a float32 input and a bfloat16 weight.
  if (form.input != form.weight && (form.input != DType::kFloat32 || form.weight != DType::kBFloat16)) {
    return binding.refuse(LinearNode::kWeight,
                          fmt::format("is {} with an input of {}", to_string(form.weight), to_string(form.input)));
  }
  const DType half = form.weight == DType::kFloat16 ? DType::kFloat16 : DType::kBFloat16;
  KPT_RETURN_IF_ERROR(binding.check_optional_tensor(LinearNode::kBias, {DType::kFloat32, half}, 1, 1));
  // A product of bfloat16 numbers is written as either type.
  form.result = form.weight == DType::kBFloat16 ? binding.result_type(0).dtype : input.dtype;
  if (form.result != DType::kFloat32 && form.result != half) form.result = input.dtype;
  KPT_RETURN_IF_ERROR(
      binding.check_optional_tensor(LinearNode::kResidual, {form.result}, input.dims.size(), input.dims.size()));
  KPT_RETURN_IF_ERROR(binding.check_result(0, form.result, input.dims.size()));
  KPT_ASSIGN_OR_RETURN(form.activation, binding.activation(LinearNode::kActivation));
  form.has_bias = !binding.is_none(LinearNode::kBias);
  form.bias_in_product = form.has_bias && binding.find_type(LinearNode::kBias)->dtype == form.weight;
  form.has_residual = !binding.is_none(LinearNode::kResidual);
  return std::unique_ptr<OwnNode>(std::make_unique<LinearNode>(form, multiply, std::move(description)));
}

}  // namespace kpt::aten
