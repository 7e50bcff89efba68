// kpt.linear and its forms with weights in int8 and int4: products with weights packed once.
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "engines/aten/module/own_nodes.h"
#include "engines/aten/module/tensors.h"
#include "engines/aten/module/typed_failure.h"
#include "kernels/cpu/packed_linear.h"

namespace kpt::aten {
namespace {

using kernels::ElementType;
using kernels::LinearForm;
using kernels::PackedLinear;

// Where each operator has its arguments; -1: it has none.
struct Positions {
  std::size_t input = 0;
  std::size_t weight = 1;
  int scale = -1;
  std::size_t bias = 0;
  std::size_t residual = 0;
  std::size_t activation = 0;
  int group = -1;
};
constexpr Positions kPlain = {0, 1, -1, 2, 3, 4, -1};
constexpr Positions kInt8 = {0, 1, 2, 3, 4, 5, -1};
constexpr Positions kInt4 = {0, 1, 2, 3, 4, 5, 6};

ElementType element_type(at::ScalarType type) {
  return type == at::kBFloat16 ? ElementType::kBfloat16 : ElementType::kFloat32;
}

// Rows that follow each other at one distance with dense elements; the distance is in elements.
std::optional<std::int64_t> find_row_stride(const at::Tensor& tensor) {
  const std::int64_t rank = tensor.dim();
  const std::int64_t width = tensor.size(rank - 1);
  if (width > 1 && tensor.stride(rank - 1) != 1) return std::nullopt;
  std::int64_t stride = width;
  std::int64_t next = -1;  // what the stride of the next outer axis must be
  for (std::int64_t axis = rank - 2; axis >= 0; --axis) {
    if (tensor.size(axis) == 1) continue;
    if (next < 0) {
      stride = tensor.stride(axis);
    } else if (tensor.stride(axis) != next) {
      return std::nullopt;
    }
    next = tensor.stride(axis) * tensor.size(axis);
  }
  return stride;
}

struct StridedInput {
  kernels::Rows rows;
  std::int64_t width = 0;
};

// Rows where they lie; what is not dense is gathered as float32.
void get_rows(const void* context, std::int64_t first, void* scratch, kernels::InputRows* rows) {
  const auto& input = *static_cast<const StridedInput*>(context);
  const bool dense = input.rows.step() == 1 || input.width <= 1;
  if (!dense) rows->type = ElementType::kFloat32;
  for (int row = 0; row < rows->count; ++row) {
    const void* source = input.rows.row(first + row);
    if (!dense) {
      float* target = static_cast<float*>(scratch) + row * input.width;
      kernels::load_row(source, input.rows.dtype, input.rows.step(), input.width, target);
      source = target;
    }
    rows->rows[row] = source;
  }
}

class LinearNode final : public OwnNode {
 public:
  LinearNode(LinearForm form, Positions at, kernels::Activation activation, std::int64_t group, std::string why_not)
      : form_(form), at_(at), activation_(activation), group_(group), why_not_(std::move(why_not)) {}

  std::string describe() const override {
    if (packed_) return fmt::format("{}{}", packed_->kernel_name(), why_not_);
    return fmt::format("{} product, its weights packed in every run because they are not constant{}",
                       kernels::to_string(form_), why_not_);
  }

  Status prepare(const OwnWeights& weights) override {
    const at::Tensor* weight = weights.find(at_.weight);
    const at::Tensor* bias = weights.find(at_.bias);
    const at::Tensor* scale = at_.scale < 0 ? nullptr : weights.find(static_cast<std::size_t>(at_.scale));
    if (weight == nullptr || (at_.scale >= 0 && scale == nullptr)) return {};
    if (has_bias_ && bias == nullptr) return {};
    KPT_ASSIGN_OR_RETURN(packed_, pack(*weight, scale, bias));
    return {};
  }

  void run(OwnCall& call) const override {
    if (packed_) return multiply(call, *packed_);
    const at::Tensor* scale = at_.scale < 0 ? nullptr : &call.tensor(static_cast<std::size_t>(at_.scale));
    const auto packed = pack(call.tensor(at_.weight), scale, call.find_tensor(at_.bias));
    if (!packed.ok()) throw_not_packed(packed.status());
    multiply(call, *packed);
  }

  void set_has_bias(bool has_bias) { has_bias_ = has_bias; }

 private:
  Result<PackedLinear> pack(const at::Tensor& given, const at::Tensor* scale, const at::Tensor* bias) const {
    const at::Tensor weight = given.stride(1) == 1 && given.stride(0) >= given.size(1) ? given : given.contiguous();
    kernels::LinearWeights weights;
    weights.form = form_;
    weights.type = element_type(weight.scalar_type());
    weights.data = weight.const_data_ptr();
    weights.rows = weight.size(0);
    weights.columns = weight.size(1) * (form_ == LinearForm::kInt4 ? 2 : 1);
    weights.row_stride = weight.stride(0);
    weights.group = group_;
    at::Tensor dense_scale;
    if (scale != nullptr) {
      const std::int64_t groups = form_ == LinearForm::kInt4 ? weights.columns / group_ : 1;
      if (scale->size(0) != weights.rows || (scale->dim() == 2 && scale->size(1) != groups)) {
        return Status(StatusCode::kPrecisionCompilation, "its scales do not fit its weight");
      }
      dense_scale = scale->contiguous();
      weights.scale = dense_scale.const_data_ptr<float>();
    }
    at::Tensor dense_bias;
    if (bias != nullptr) {
      if (bias->size(0) != weights.rows) return Status(StatusCode::kUnsupported, "its bias does not fit its weight");
      dense_bias = bias->contiguous();
      weights.bias = dense_bias.const_data_ptr();
      weights.bias_type = element_type(dense_bias.scalar_type());
    }
    return PackedLinear::pack(weights);
  }

  void multiply(OwnCall& call, const PackedLinear& packed) const {
    const at::Tensor& input = call.tensor(at_.input);
    StridedInput strided = {to_rows(input), input.size(-1)};
    OwnCall::require(strided.width == packed.in_features(), "the input's last axis is not as long as the weight's");
    c10::SmallVector<std::int64_t, 8> sizes(input.sizes().begin(), input.sizes().end());
    sizes.back() = packed.out_features();
    at::Tensor& output = call.result(0, sizes);

    kernels::LinearCall product;
    product.rows = 1;
    for (std::int64_t axis = 0; axis + 1 < input.dim(); ++axis) product.rows *= input.size(axis);
    product.input_type = element_type(input.scalar_type());
    product.output = output.mutable_data_ptr();
    product.output_stride = packed.out_features();
    product.output_type = element_type(output.scalar_type());
    product.activation = activation_;
    at::Tensor residual;
    if (const at::Tensor* given = call.find_tensor(at_.residual)) {
      OwnCall::require(given->sizes() == output.sizes(), "the residual is not of the result's sizes");
      residual = find_row_stride(*given) ? *given : given->contiguous();
      product.residual = residual.const_data_ptr();
      product.residual_stride = find_row_stride(residual).value();
      product.residual_type = element_type(residual.scalar_type());
    }
    const kernels::Parallel parallel = call.parallel();
    kernels::RowSource source;
    source.get = &get_rows;
    source.context = &strided;
    if (strided.width > 1 && strided.rows.step() != 1) {
      source.scratch_bytes = sizeof(float) * static_cast<std::size_t>(packed.rows_at_once() * strided.width);
    }
    void* workspace = call.workspace(packed.workspace_bytes(product.rows, parallel.threads, source.scratch_bytes));
    packed.run(product, source, workspace, parallel);
  }

  LinearForm form_;
  Positions at_;
  kernels::Activation activation_;
  std::int64_t group_;
  std::string why_not_;  // "; not …: …" for every kernel that would have come first
  bool has_bias_ = false;
  std::optional<PackedLinear> packed_;
};

Result<std::unique_ptr<OwnNode>> bind(const OwnBinding& binding, LinearForm form, const Positions& at,
                                      std::int64_t group) {
  KPT_RETURN_IF_ERROR(binding.check_tensor(at.input, {DType::kFloat32, DType::kBFloat16}, 1));
  const std::size_t rank = binding.find_type(at.input)->dims.size();
  KPT_RETURN_IF_ERROR(binding.check_optional_tensor(at.bias, {DType::kFloat32, DType::kBFloat16}, 1, 1));
  KPT_RETURN_IF_ERROR(binding.check_optional_tensor(at.residual, {DType::kFloat32, DType::kBFloat16}, rank, rank));
  const DType result = binding.result_type(0).dtype == DType::kBFloat16 ? DType::kBFloat16 : DType::kFloat32;
  KPT_RETURN_IF_ERROR(binding.check_result(0, result, rank));
  KPT_ASSIGN_OR_RETURN(const ir::Activation activation, binding.activation(at.activation));
  static_assert(static_cast<int>(ir::Activation::kRelu6) == static_cast<int>(kernels::Activation::kRelu6));
  auto node = std::make_unique<LinearNode>(form, at, static_cast<kernels::Activation>(activation), group,
                                           kernels::list_refused(form));
  node->set_has_bias(!binding.is_none(at.bias));
  return std::unique_ptr<OwnNode>(std::move(node));
}

Result<std::unique_ptr<OwnNode>> bind_int8(const OwnBinding& binding, LinearForm form) {
  KPT_RETURN_IF_ERROR(binding.check_tensor(kInt8.weight, {DType::kInt8}, 2, 2));
  KPT_RETURN_IF_ERROR(binding.check_tensor(static_cast<std::size_t>(kInt8.scale), {DType::kFloat32}, 1, 1));
  return bind(binding, form, kInt8, 0);
}

}  // namespace

Result<std::unique_ptr<OwnNode>> bind_linear(const OwnBinding& binding) {
  KPT_RETURN_IF_ERROR(binding.check_tensor(kPlain.weight, {DType::kFloat32, DType::kBFloat16}, 2, 2));
  const bool half = binding.find_type(kPlain.weight)->dtype == DType::kBFloat16;
  return bind(binding, half ? LinearForm::kBfloat16 : LinearForm::kFloat32, kPlain, 0);
}

Result<std::unique_ptr<OwnNode>> bind_linear_int8(const OwnBinding& binding) {
  return bind_int8(binding, LinearForm::kInt8);
}

Result<std::unique_ptr<OwnNode>> bind_linear_weight_int8(const OwnBinding& binding) {
  return bind_int8(binding, LinearForm::kWeightInt8);
}

Result<std::unique_ptr<OwnNode>> bind_linear_int4(const OwnBinding& binding) {
  KPT_RETURN_IF_ERROR(binding.check_tensor(kInt4.weight, {DType::kUInt8}, 2, 2));
  KPT_RETURN_IF_ERROR(binding.check_tensor(static_cast<std::size_t>(kInt4.scale), {DType::kFloat32}, 2, 2));
  KPT_ASSIGN_OR_RETURN(const std::int64_t group, binding.integer(static_cast<std::size_t>(kInt4.group)));
  if (group <= 0) return binding.refuse(static_cast<std::size_t>(kInt4.group), "is not above zero");
  return bind(binding, LinearForm::kInt4, kInt4, group);
}

}  // namespace kpt::aten
