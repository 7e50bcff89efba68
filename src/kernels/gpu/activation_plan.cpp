#include <string>

#include "ir/own_operators.h"
#include "kernels/gpu/activation.h"
#include "kernels/gpu/activation_kernels.h"
#include "kernels/gpu/plan_checks.h"
#include "kernels/gpu/scaled_product_kernels.h"

namespace kpt::gpu {
namespace {

static_assert(static_cast<int>(Activation::kRelu6) == static_cast<int>(ir::Activation::kRelu6) &&
              static_cast<int>(Activation::kGeluTanh) == static_cast<int>(ir::Activation::kGeluTanh));

bool is_activation(Activation activation) {
  return activation >= Activation::kNone && activation <= Activation::kRelu6;
}

Status check(std::string_view kernel, DType dtype, Activation activation, std::int64_t rows, std::int64_t width,
             std::initializer_list<std::int64_t> strides) {
  if (!is_kernel_type(dtype)) return invalid_call(kernel, fmt::format("no kernel for {}", to_string(dtype)));
  if (!is_activation(activation)) return invalid_call(kernel, "no such activation");
  KPT_RETURN_IF_ERROR(check_sizes(kernel, {rows, width}));
  for (const std::int64_t stride : strides) KPT_RETURN_IF_ERROR(check_sizes(kernel, {rows, stride}));
  return {};
}

}  // namespace

Result<Plan> plan_gated(const GatedCall& call, const DeviceShape& /*device*/) {
  constexpr std::string_view kActivationName = "gated";
  KPT_RETURN_IF_ERROR(
      check(kActivationName, call.dtype, call.activation, call.rows, call.width, {call.gate_stride, call.up_stride}));
  if (call.rows == 0 || call.width == 0) return Plan{};
  if (call.gate == nullptr || call.up == nullptr || call.output == nullptr) {
    return invalid_call(kActivationName, "gate, up and output must be given");
  }
  const std::int64_t each = vector_elements(call.dtype);
  GatedArgs args{};
  args.gate = call.gate;
  args.up = call.up;
  args.output = call.output;
  args.rows = call.rows;
  args.width = call.width;
  args.gate_stride = call.gate_stride;
  args.up_stride = call.up_stride;
  args.activation = call.activation;
  const bool vectors = are_multiples({call.width, call.gate_stride, call.up_stride}, each) &&
                       are_aligned({call.gate, call.up, call.output});
  args.vectors = vectors ? 1 : 0;
  const std::int64_t blocks = divide_up(call.rows * call.width / (vectors ? each : 1), kItemThreads);
  KPT_RETURN_IF_ERROR(check_blocks(kActivationName, blocks));
  return Plan{make_launch("gated_" + std::string(type_suffix(call.dtype)), blocks, args, kItemThreads)};
}

Result<Plan> plan_bias_activation(const BiasCall& call, const DeviceShape& /*device*/) {
  constexpr std::string_view kActivationName = "bias_activation";
  KPT_RETURN_IF_ERROR(check(kActivationName, call.dtype, call.activation, call.rows, call.width,
                            {call.input_stride, call.residual_stride}));
  if (call.bias_dtype != call.dtype && call.bias_dtype != DType::kFloat32) {
    return invalid_call(kActivationName, "the bias must be of the input's type or float32");
  }
  if (call.rows == 0 || call.width == 0) return Plan{};
  if (call.input == nullptr || call.output == nullptr)
    return invalid_call(kActivationName, "input and output must be given");
  const std::int64_t each = vector_elements(call.dtype);
  BiasArgs args{};
  args.input = call.input;
  args.bias = call.bias;
  args.residual = call.residual;
  args.output = call.output;
  args.rows = call.rows;
  args.width = call.width;
  args.input_stride = call.input_stride;
  args.residual_stride = call.residual_stride;
  args.activation = call.activation;
  args.bias_is_float = call.bias_dtype == DType::kFloat32 ? 1 : 0;
  const bool vectors = are_multiples({call.width, call.input_stride, call.residual_stride}, each) &&
                       are_aligned({call.input, call.bias, call.residual, call.output});
  args.vectors = vectors ? 1 : 0;
  const std::int64_t blocks = divide_up(call.rows * call.width / (vectors ? each : 1), kItemThreads);
  KPT_RETURN_IF_ERROR(check_blocks(kActivationName, blocks));
  return Plan{make_launch("bias_activation_" + std::string(type_suffix(call.dtype)), blocks, args, kItemThreads)};
}

Result<Plan> plan_scaled_product(const ScaledProductCall& call, const DeviceShape& /*device*/) {
  constexpr std::string_view kActivationName = "scaled_product";
  KPT_RETURN_IF_ERROR(check(kActivationName, call.dtype, call.activation, call.rows, call.width,
                            {call.sum_stride, call.residual_stride}));
  if (call.bias_dtype != call.dtype && call.bias_dtype != DType::kFloat32) {
    return invalid_call(kActivationName, "the bias must be of the output's type or float32");
  }
  if (call.rows == 0 || call.width == 0) return Plan{};
  if (call.sums == nullptr || call.row_scale == nullptr || call.column_scale == nullptr || call.output == nullptr) {
    return invalid_call(kActivationName, "sums, both scales and output must be given");
  }
  const std::int64_t each = vector_elements(call.dtype);
  ScaledProductArgs args{};
  args.sums = call.sums;
  args.row_scale = call.row_scale;
  args.column_scale = call.column_scale;
  args.bias = call.bias;
  args.residual = call.residual;
  args.output = call.output;
  args.rows = call.rows;
  args.width = call.width;
  args.sum_stride = call.sum_stride;
  args.residual_stride = call.residual_stride;
  args.activation = call.activation;
  args.bias_is_float = call.bias_dtype == DType::kFloat32 ? 1 : 0;
  const bool vectors = are_multiples({call.width, call.sum_stride, call.residual_stride}, each) &&
                       are_aligned({call.sums, call.column_scale, call.bias, call.residual, call.output});
  args.vectors = vectors ? 1 : 0;
  const std::int64_t blocks = divide_up(call.rows * call.width / (vectors ? each : 1), kItemThreads);
  KPT_RETURN_IF_ERROR(check_blocks(kActivationName, blocks));
  return Plan{make_launch("scaled_product_" + std::string(type_suffix(call.dtype)), blocks, args, kItemThreads)};
}

}  // namespace kpt::gpu
