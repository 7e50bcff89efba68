// kpt.linear_int8(input, weight, scale, bias, residual, activation) -> result: rows of the input are rounded to int8 by
// a kernel of ours, the product is libtorch's of int8 with sums in int32, and another kernel of ours makes real numbers
// of these with bias, residual and activation.
#include <algorithm>
#include <optional>

#include <ATen/Functions.h>
#include <fmt/format.h>

#include "engines/aten/cuda/cuda_own_nodes.h"
#include "engines/aten/module/gpu_launch.h"
#include "engines/aten/module/tensors.h"
#include "engines/aten/module/typed_failure.h"
#include "kernels/gpu/activation.h"
#include "kernels/gpu/convert.h"

namespace kpt::aten {
namespace {

enum Position : std::size_t { kInput, kWeight, kScale, kBias, kResidual, kActivation };

constexpr std::int64_t kLeastRows = 17;      // that libtorch's product takes
constexpr std::int64_t kExtentMultiple = 8;  // of its other extents
constexpr std::int64_t kLeastInner = 16;     // narrower products are nowhere tried

std::int64_t round_up(std::int64_t extent) {
  return (extent + kExtentMultiple - 1) / kExtentMultiple * kExtentMultiple;
}

// Zeros below and to the right, where the matrix is smaller.
at::Tensor padded(const at::Tensor& matrix, std::int64_t rows, std::int64_t columns) {
  if (matrix.size(0) == rows && matrix.size(1) == columns) return matrix;
  return at::constant_pad_nd(matrix, {0, columns - matrix.size(1), 0, rows - matrix.size(0)});
}

class LinearInt8Node final : public OwnNode {
 public:
  struct Form {
    DType input = DType::kFloat32;
    DType result = DType::kFloat32;
    ir::Activation activation = ir::Activation::kNone;
  };

  explicit LinearInt8Node(const Form& form) : form_(form) {}

  std::string describe() const override {
    return fmt::format("quantize_rows of {}, libtorch's int8 product, then scaled_product of {}",
                       to_string(form_.input), to_string(form_.result));
  }

  void run(OwnCall& call) const override {
    if (!call.wants(0)) return;
    const at::Tensor& input = call.tensor(kInput);
    const at::Tensor weight = call.tensor(kWeight).contiguous();
    const at::Tensor scale = call.tensor(kScale).contiguous();
    const at::Tensor* residual = call.find_tensor(kResidual);
    const std::int64_t outer = weight.size(0);
    const std::int64_t inner = weight.size(1);
    OwnCall::require(input.size(-1) == inner, "the input's rows are not as wide as the weight's");
    require_as(StatusCode::kPrecisionCompilation, scale.size(0) == outer, "the scales do not fit the weight");
    std::optional<at::Tensor> bias;
    if (const at::Tensor* given = call.find_tensor(kBias)) {
      OwnCall::require(given->size(0) == outer, "the bias does not fit the weight");
      // The kernel takes the result's type or float32.
      bias = given->scalar_type() == to_scalar_type(form_.result) ? given->contiguous()
                                                                  : given->to(at::kFloat).contiguous();
    }
    at::DimVector sizes(input.sizes());
    sizes.back() = outer;
    at::Tensor& result = call.result(0, sizes);
    if (result.numel() == 0) return;
    OwnCall::require(residual == nullptr || residual->sizes() == result.sizes(),
                     "the residual is not of the result's sizes");
    const std::int64_t rows = result.numel() / outer;
    // What stands in rows too many is multiplied too, and not read.
    at::Tensor codes = at::empty({std::max(rows, kLeastRows), inner}, weight.options());
    const at::Tensor row_scale = at::ones({rows}, scale.options());
    if (inner > 0) round_rows(input, rows, codes, row_scale);
    const std::int64_t depth = std::max(round_up(inner), kLeastInner);
    const at::Tensor sums =
        at::_int_mm(padded(codes, codes.size(0), depth), padded(weight, round_up(outer), depth).t());
    finish(sums, row_scale, scale, bias ? &*bias : nullptr, residual, rows, result);
  }

 private:
  void round_rows(const at::Tensor& input, std::int64_t rows, const at::Tensor& codes,
                  const at::Tensor& row_scale) const {
    const DenseRows given = dense_rows(input);
    gpu::QuantizeRowsCall quantize;
    quantize.from = form_.input;
    quantize.to = DType::kInt8;
    quantize.input = given.data();
    quantize.output = codes.mutable_data_ptr();
    quantize.scale = row_scale.mutable_data_ptr<float>();
    quantize.rows = rows;
    quantize.width = codes.size(1);
    quantize.input_stride = given.stride;
    launch(gpu::plan_quantize_rows(quantize, device_shape()));
  }

  void finish(const at::Tensor& sums, const at::Tensor& row_scale, const at::Tensor& scale, const at::Tensor* bias,
              const at::Tensor* residual, std::int64_t rows, at::Tensor& result) const {
    gpu::ScaledProductCall end;
    end.dtype = form_.result;
    end.activation = static_cast<gpu::Activation>(form_.activation);
    end.sums = sums.const_data_ptr<std::int32_t>();
    end.row_scale = row_scale.const_data_ptr<float>();
    end.column_scale = scale.const_data_ptr<float>();
    if (bias != nullptr) {
      end.bias = bias->const_data_ptr();
      end.bias_dtype = dtype_of(*bias);
    }
    DenseRows added;
    if (residual != nullptr) {
      added = dense_rows(*residual);
      end.residual = added.data();
      end.residual_stride = added.stride;
    }
    end.output = result.mutable_data_ptr();
    end.rows = rows;
    end.width = scale.size(0);
    end.sum_stride = sums.stride(0);
    launch(gpu::plan_scaled_product(end, device_shape()));
  }

  Form form_;
};

}  // namespace

Result<std::unique_ptr<OwnNode>> bind_cuda_linear_int8(const OwnBinding& binding) {
  KPT_RETURN_IF_ERROR(binding.check_tensor(kInput, kGpuReals, 1));
  const ir::TensorType& input = *binding.find_type(kInput);
  LinearInt8Node::Form form;
  form.input = input.dtype;
  // Of the input's type, or float32 with one of 16 bits, or bfloat16 with float32.
  form.result = binding.result_type(0).dtype;
  const bool either =
      form.result == DType::kFloat32 || (form.result == DType::kBFloat16 && form.input == DType::kFloat32);
  if (!either) form.result = form.input;
  KPT_RETURN_IF_ERROR(binding.check_tensor(kWeight, {DType::kInt8}, 2, 2));
  KPT_RETURN_IF_ERROR(binding.check_tensor(kScale, {DType::kFloat32}, 1, 1));
  KPT_RETURN_IF_ERROR(binding.check_optional_tensor(kBias, kGpuReals, 1, 1));
  KPT_RETURN_IF_ERROR(binding.check_optional_tensor(kResidual, {form.result}, input.dims.size(), input.dims.size()));
  KPT_RETURN_IF_ERROR(binding.check_result(0, form.result, input.dims.size()));
  KPT_ASSIGN_OR_RETURN(form.activation, binding.activation(kActivation));
  return std::unique_ptr<OwnNode>(std::make_unique<LinearInt8Node>(form));
}

}  // namespace kpt::aten
