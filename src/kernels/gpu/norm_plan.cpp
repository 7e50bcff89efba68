#include <string>

#include "kernels/gpu/norm.h"
#include "kernels/gpu/norm_backward_kernels.h"
#include "kernels/gpu/norm_kernels.h"
#include "kernels/gpu/plan_checks.h"

namespace kpt::gpu {
namespace {

constexpr int kPasses = 4;          // accesses that a lane keeps in registers
constexpr int kBackwardPasses = 2;  // fewer: the backward pass keeps four arrays
constexpr int kWaveThreads = 128;   // of blocks whose waves have a row each

bool is_parameter_type(DType dtype, DType own) { return dtype == own || dtype == DType::kFloat32; }

Status check(const NormCall& call) {
  if (!is_kernel_type(call.dtype)) {
    return invalid_call("norm", fmt::format("no kernel for {}", to_string(call.dtype)));
  }
  if (!is_parameter_type(call.weight_dtype, call.dtype) || !is_parameter_type(call.bias_dtype, call.dtype)) {
    return invalid_call("norm", "weight and bias must be of the input's type or float32");
  }
  if (call.input_stride < 0 || call.residual_stride < 0) return invalid_call("norm", "a stride is negative");
  KPT_RETURN_IF_ERROR(
      check_sizes("norm", {call.rows, std::max({call.width, call.input_stride, call.residual_stride})}));
  KPT_RETURN_IF_ERROR(check_sizes("norm", {call.rows, call.width}));
  if (call.rows > 0 && call.width > 0 && call.input == nullptr) return invalid_call("norm", "the input is null");
  return {};
}

NormArgs args_of(const NormCall& call) {
  NormArgs args{};
  args.input = call.input;
  args.residual = call.residual;
  args.weight = call.weight;
  args.bias = call.bias;
  args.normed = call.normed;
  args.sum = call.sum;
  args.mean = call.mean;
  args.scale = call.scale;
  args.rows = call.rows;
  args.width = call.width;
  args.input_stride = call.input_stride;
  args.residual_stride = call.residual_stride;
  args.epsilon = call.epsilon;
  args.centered = call.kind == NormKind::kLayer ? 1 : 0;
  args.weight_is_float = call.weight_dtype == DType::kFloat32 ? 1 : 0;
  args.bias_is_float = call.bias_dtype == DType::kFloat32 ? 1 : 0;
  return args;
}

}  // namespace

Result<Plan> plan_norm(const NormCall& call, const DeviceShape& device) {
  KPT_RETURN_IF_ERROR(check(call));
  if (call.rows == 0 || call.width == 0) return Plan{};
  KPT_RETURN_IF_ERROR(check_blocks("norm", call.rows));
  const std::string type(type_suffix(call.dtype));
  const std::int64_t each = vector_elements(call.dtype);
  const std::int64_t accesses = call.width / each;
  const bool in_vectors = are_multiples({call.width, call.input_stride, call.residual_stride}, each) &&
                          are_aligned({call.input, call.residual, call.weight, call.bias, call.normed, call.sum});
  const NormArgs args = args_of(call);
  if (!in_vectors) {
    return Plan{make_launch("norm_scalar_" + type, call.rows, args, row_threads(call.width, 4, device.wave, 512))};
  }
  if (accesses <= kPasses * device.wave) {
    const std::int64_t blocks = divide_up(call.rows, kWaveThreads / device.wave);
    return Plan{make_launch("norm_wave_" + type, blocks, args, kWaveThreads)};
  }
  if (accesses <= kPasses * kMaxThreads) {
    const int threads = row_threads(accesses, 2, device.wave, kMaxThreads);
    return Plan{make_launch("norm_block_" + type, call.rows, args, threads)};
  }
  return Plan{make_launch("norm_streamed_" + type, call.rows, args, 512)};
}

namespace {

// Enough blocks to fill the device twice: each has a share of the weight's gradient to write and to add up.
std::int64_t backward_blocks(const NormBackwardCall& call, const DeviceShape& device) {
  return std::clamp<std::int64_t>(call.rows, 1, std::int64_t{2} * std::max(device.multiprocessors, 1));
}

Status check(const NormBackwardCall& call, const DeviceShape& device) {
  constexpr std::string_view kName = "norm_backward";
  if (!is_kernel_type(call.dtype)) return invalid_call(kName, fmt::format("no kernel for {}", to_string(call.dtype)));
  if (!is_parameter_type(call.weight_dtype, call.dtype)) {
    return invalid_call(kName, "the weight must be of the input's type or float32");
  }
  KPT_RETURN_IF_ERROR(check_sizes(kName, {call.rows, call.width}));
  if (call.rows == 0 || call.width == 0) return {};
  if (call.gradient == nullptr || call.input == nullptr || call.scale == nullptr || call.input_gradient == nullptr ||
      (call.kind == NormKind::kLayer && call.mean == nullptr)) {
    return invalid_call(kName, "gradient, input, statistics and the input's gradient must be given");
  }
  if (norm_backward_workspace(call, device) > 0 && (call.workspace == nullptr || !is_aligned(call.workspace, 16))) {
    return invalid_call(kName, "the workspace is missing or not aligned to 16 bytes");
  }
  return {};
}

void add_finish(Plan& plan, const NormBackwardCall& call, const float* shares, void* result, std::int64_t blocks) {
  if (result == nullptr) return;
  NormFinishArgs args{};
  args.shares = shares;
  args.result = result;
  args.blocks = blocks;
  args.width = call.width;
  args.result_is_float = call.weight_dtype == DType::kFloat32 ? 1 : 0;
  plan.push_back(make_launch("norm_backward_finish_" + std::string(type_suffix(call.dtype)), divide_up(call.width, 32),
                             args, 256));
}

// Shares of the weight, then of the bias, each from an address that is a multiple of 16.
std::int64_t share_floats(const NormBackwardCall& call, const DeviceShape& device) {
  return round_up(backward_blocks(call, device) * call.width, 4);
}

}  // namespace

std::size_t norm_backward_workspace(const NormBackwardCall& call, const DeviceShape& device) {
  if (call.rows == 0 || call.width == 0) return 0;
  const std::int64_t arrays = (call.weight_gradient != nullptr ? 1 : 0) + (call.bias_gradient != nullptr ? 1 : 0);
  return static_cast<std::size_t>(arrays * share_floats(call, device)) * sizeof(float);
}

Result<Plan> plan_norm_backward(const NormBackwardCall& call, const DeviceShape& device) {
  KPT_RETURN_IF_ERROR(check(call, device));
  if (call.rows == 0 || call.width == 0) {  // sums over no rows are zeros
    Plan zeros;
    if (call.width > 0) add_finish(zeros, call, nullptr, call.weight_gradient, 0);
    if (call.width > 0) add_finish(zeros, call, nullptr, call.bias_gradient, 0);
    return zeros;
  }
  const std::int64_t blocks = backward_blocks(call, device);
  auto* workspace = static_cast<float*>(call.workspace);
  NormBackwardArgs args{};
  args.gradient = call.gradient;
  args.input = call.input;
  args.weight = call.weight;
  args.mean = call.mean;
  args.scale = call.scale;
  args.sum_gradient = call.sum_gradient;
  args.input_gradient = call.input_gradient;
  args.weight_shares = call.weight_gradient == nullptr ? nullptr : workspace;
  args.bias_shares = nullptr;
  if (call.bias_gradient != nullptr) {
    args.bias_shares = workspace + (call.weight_gradient == nullptr ? 0 : share_floats(call, device));
  }
  args.rows = call.rows;
  args.width = call.width;
  args.blocks = blocks;
  args.centered = call.kind == NormKind::kLayer ? 1 : 0;
  args.weight_is_float = call.weight_dtype == DType::kFloat32 ? 1 : 0;

  const std::string type(type_suffix(call.dtype));
  const std::int64_t each = vector_elements(call.dtype);
  const bool in_registers =
      call.width % each == 0 && call.width / each <= std::int64_t{kBackwardPasses} * 512 &&
      are_aligned({call.gradient, call.input, call.weight, call.sum_gradient, call.input_gradient});
  Plan plan;
  if (in_registers) {
    const int threads = row_threads(call.width / each, kBackwardPasses, device.wave, 512);
    plan.push_back(make_launch("norm_backward_" + type, blocks, args, threads));
  } else {
    plan.push_back(
        make_launch("norm_backward_any_" + type, blocks, args, row_threads(call.width, 4, device.wave, 512)));
  }
  add_finish(plan, call, args.weight_shares, call.weight_gradient, blocks);
  add_finish(plan, call, args.bias_shares, call.bias_gradient, blocks);
  return plan;
}

}  // namespace kpt::gpu
