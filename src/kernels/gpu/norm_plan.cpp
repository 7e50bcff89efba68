#include <bit>
#include <string>

#include "kernels/gpu/norm.h"
#include "kernels/gpu/norm_backward_kernels.h"
#include "kernels/gpu/norm_backward_staged.h"
#include "kernels/gpu/norm_kernels.h"
#include "kernels/gpu/plan_checks.h"

namespace kpt::gpu {
namespace {

constexpr int kAccesses = 4;       // the most that a thread holds
constexpr int kWaveThreads = 768;  // the most of a block whose waves have a row each

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
  // Where only one of them is given, its type is that of both.
  args.weight_is_float = (call.weight != nullptr ? call.weight_dtype : call.bias_dtype) == DType::kFloat32 ? 1 : 0;
  args.bias_is_float = call.bias_dtype == DType::kFloat32 ? 1 : 0;
  return args;
}

// Whether a row can be held by the threads of the layout.
bool holds(const NormLayout& layout, std::int64_t accesses, int wave, int most_threads) {
  return layout.row_threads > 0 && layout.row_threads % wave == 0 && layout.threads > 0 &&
         layout.threads % layout.row_threads == 0 && layout.threads <= most_threads &&
         accesses <= std::int64_t{layout.accesses} * layout.row_threads;
}

// Whether a row is held by some lanes of a wave, `rows` of them by each lane.
bool holds_narrow(const NormLayout& layout, std::int64_t accesses, int wave) {
  const int lanes = layout.row_threads;
  return layout.accesses == 1 && lanes > 0 && lanes <= wave && (lanes & (lanes - 1)) == 0 && layout.threads > 0 &&
         layout.threads % wave == 0 && layout.threads <= kNarrowThreads && accesses <= lanes;
}

// Lanes that share a row of at most a wave's width.
int narrow_lanes(std::int64_t accesses) {
  return static_cast<int>(std::bit_ceil(static_cast<std::uint64_t>(accesses)));
}

// Rows that a block has at once.
std::int64_t rows_at_once(const NormLayout& layout) {
  return std::int64_t{std::max(1, layout.threads / std::max(1, layout.row_threads))} * std::max(1, layout.rows);
}

bool in_vectors(const NormCall& call) {
  return are_multiples({call.width, call.input_stride, call.residual_stride}, vector_elements(call.dtype)) &&
         are_aligned({call.input, call.residual, call.weight, call.bias, call.normed, call.sum});
}

bool in_registers(const NormCall& call) {
  return call.width / vector_elements(call.dtype) <= std::int64_t{kAccesses} * kMaxThreads &&
         (call.weight == nullptr || call.bias == nullptr || call.weight_dtype == call.bias_dtype);
}

// Whether waves have a row each.
bool is_by_waves(const NormLayout& layout, const DeviceShape& device) {
  return layout.accesses == kAccesses && layout.row_threads == device.wave;
}

bool fits(const NormLayout& layout, const NormCall& call, const DeviceShape& device) {
  const std::int64_t accesses = call.width / vector_elements(call.dtype);
  if (layout.rows != 1) {
    return layout.blocks == 0 && holds_narrow(layout, accesses, device.wave) &&
           layout.rows == (call.residual == nullptr ? 4 : 2);
  }
  const bool by_waves = is_by_waves(layout, device);
  return (layout.accesses == 4 || (layout.accesses == 2 && call.residual != nullptr)) && layout.blocks == 0 &&
         (by_waves || layout.threads == layout.row_threads) &&
         holds(layout, accesses, device.wave, by_waves ? kWaveThreads : kMaxThreads);
}

}  // namespace

// As measured on an H200 (docs/measurements/2026-11-17-nvidia-norms.md).
NormLayout norm_layout(const NormCall& call, const DeviceShape& device) {
  const std::int64_t accesses = call.width / vector_elements(call.dtype);
  if (accesses <= device.wave) {
    return {1, narrow_lanes(accesses), device.wave, 0, call.residual == nullptr ? 4 : 2};
  }
  NormLayout layout;
  const bool by_waves = accesses <= std::int64_t{kAccesses} * device.wave;
  const bool by_two = !by_waves && call.residual != nullptr && accesses <= std::int64_t{2} * kMaxThreads;
  layout.accesses = by_two ? 2 : kAccesses;
  layout.row_threads = layout.threads = row_threads(accesses, layout.accesses, device.wave, kMaxThreads);
  return layout;
}

Result<Plan> plan_norm(const NormCall& call, const DeviceShape& device) {
  KPT_RETURN_IF_ERROR(check(call));
  return plan_norm(call, device, norm_layout(call, device));
}

Result<Plan> plan_norm(const NormCall& call, const DeviceShape& device, const NormLayout& layout) {
  KPT_RETURN_IF_ERROR(check(call));
  if (call.rows == 0 || call.width == 0) return Plan{};
  KPT_RETURN_IF_ERROR(check_blocks("norm", call.rows));
  const std::string type(type_suffix(call.dtype));
  NormArgs args = args_of(call);
  if (!in_vectors(call)) {
    return Plan{make_launch("norm_scalar_" + type, call.rows, args, row_threads(call.width, 4, device.wave, 512))};
  }
  if (!in_registers(call)) return Plan{make_launch("norm_streamed_" + type, call.rows, args, 512)};
  if (!fits(layout, call, device)) return invalid_call("norm", "the layout does not fit");
  args.row_threads = layout.row_threads;
  std::string name = call.residual == nullptr ? "norm_" : "norm_sum_";
  if (layout.rows > 1) {
    name += fmt::format("narrow{}_", layout.rows);
  } else {
    name += is_by_waves(layout, device) ? "wave_" : fmt::format("block{}_", layout.accesses);
  }
  return Plan{make_launch(name + type, divide_up(call.rows, rows_at_once(layout)), args, layout.threads)};
}

namespace {

// `blocks` on each multiprocessor that walk over the rows, `at_once` each; no more than have work, and no more than it
// takes for as many turns: each leaves a share to add up.
std::int64_t walking_blocks(std::int64_t rows, std::int64_t at_once, int blocks, const DeviceShape& device) {
  const std::int64_t steps = divide_up(rows, at_once);
  const std::int64_t turns = divide_up(steps, std::max<std::int64_t>(blocks, 1) * std::max(device.multiprocessors, 1));
  return turns == 0 ? 0 : divide_up(steps, turns);
}

// Blocks of the kernel that takes any row.
std::int64_t any_blocks(const NormBackwardCall& call, const DeviceShape& device) {
  return walking_blocks(call.rows, 1, 2, device);
}

std::int64_t backward_blocks(const NormBackwardCall& call, const DeviceShape& device, const NormLayout& layout) {
  return walking_blocks(call.rows, rows_at_once(layout), layout.blocks, device);
}

constexpr int kBackwardThreads = 512;  // the most of a block

// Threads on a multiprocessor whose registers fit: each keeps two sums for each element.
int backward_resident(int accesses) { return accesses == 1 ? 1024 : 512; }

int staged_threads(int accesses) { return accesses == 3 ? 640 : kBackwardThreads; }

// Of shared memory, for the rows of all threads of a block.
std::int64_t staged_bytes(const NormLayout& layout, const NormBackwardCall& call) {
  const std::int64_t tensors = call.sum_gradient == nullptr ? 2 : 3;
  return std::int64_t{layout.stages} * tensors * layout.accesses * layout.rows * layout.threads * 16;
}

bool fits(const NormLayout& layout, const NormBackwardCall& call, const DeviceShape& device) {
  if (layout.blocks <= 0 || layout.stages < 0 || layout.stages > kMostStages) return false;
  const std::int64_t accesses = call.width / vector_elements(call.dtype);
  if (layout.stages > 0 && staged_bytes(layout, call) > device.shared_bytes) return false;
  if (layout.rows != 1) {
    return (layout.rows == 2 || (layout.rows == 4 && layout.stages > 0)) && holds_narrow(layout, accesses, device.wave);
  }
  if (layout.stages > 0) {
    return (layout.accesses == 3 || layout.accesses == 4) &&
           holds(layout, accesses, device.wave, staged_threads(layout.accesses));
  }
  return (layout.accesses == 1 || layout.accesses == 4) &&
         (layout.threads == layout.row_threads || call.width <= kShareTile) &&
         holds(layout, accesses, device.wave, kBackwardThreads);
}

Status check(const NormBackwardCall& call, const DeviceShape& device, const NormLayout& layout) {
  constexpr std::string_view kNormName = "norm_backward";
  if (!is_kernel_type(call.dtype))
    return invalid_call(kNormName, fmt::format("no kernel for {}", to_string(call.dtype)));
  if (!is_parameter_type(call.weight_dtype, call.dtype)) {
    return invalid_call(kNormName, "the weight must be of the input's type or float32");
  }
  KPT_RETURN_IF_ERROR(check_sizes(kNormName, {call.rows, call.width}));
  if (call.rows == 0 || call.width == 0) return {};
  if (call.gradient == nullptr || call.input == nullptr || call.scale == nullptr || call.input_gradient == nullptr ||
      (call.kind == NormKind::kLayer && call.mean == nullptr)) {
    return invalid_call(kNormName, "gradient, input, statistics and the input's gradient must be given");
  }
  if (norm_backward_workspace(call, device, layout) > 0 &&
      (call.workspace == nullptr || !is_aligned(call.workspace, 16))) {
    return invalid_call(kNormName, "the workspace is missing or not aligned to 16 bytes");
  }
  return {};
}

void add_finish(Plan& plan, const NormBackwardCall& call, const float* weight_shares, const float* bias_shares,
                std::int64_t blocks) {
  NormFinishArgs args{};
  int results = 0;
  for (const auto& [shares, result] :
       {std::pair(weight_shares, call.weight_gradient), std::pair(bias_shares, call.bias_gradient)}) {
    if (result == nullptr) continue;
    args.shares[results] = shares;
    args.results[results] = result;
    ++results;
  }
  if (results == 0) return;
  args.blocks = blocks;
  args.width = call.width;
  args.column_blocks = divide_up(call.width, 32);
  args.result_is_float = call.weight_dtype == DType::kFloat32 ? 1 : 0;
  plan.push_back(make_launch("norm_backward_finish_" + std::string(type_suffix(call.dtype)),
                             results * args.column_blocks, args, 1024));
}

// Shares of the weight, then of the bias, each from an address that is a multiple of 16. Which kernel runs depends on
// addresses, which a caller may not know yet: there is room for either.
std::int64_t share_floats(const NormBackwardCall& call, const DeviceShape& device, const NormLayout& layout) {
  return round_up(std::max(backward_blocks(call, device, layout), any_blocks(call, device)) * call.width, 4);
}

// Where rows through shared memory are faster than rows in registers; no threads where they are not.
NormLayout staged_layout(const NormBackwardCall& call, const DeviceShape& device) {
  const std::int64_t accesses = call.width / vector_elements(call.dtype);
  const bool third = call.sum_gradient != nullptr;
  if (accesses <= device.wave) return {1, narrow_lanes(accesses), kNarrowThreads, third ? 3 : 2, third ? 2 : 4, 1};
  const bool by_three = accesses <= std::int64_t{3} * device.wave;
  if (!third) return by_three ? NormLayout{3, device.wave, 256, 2, 1, 2} : NormLayout{};
  NormLayout layout;
  layout.accesses = by_three ? 3 : kAccesses;
  layout.row_threads = row_threads(accesses, layout.accesses, device.wave, kBackwardThreads);
  layout.threads = layout.row_threads * std::max(1, (by_three ? 512 : 256) / layout.row_threads);
  layout.blocks = kBackwardThreads / layout.threads;
  layout.stages = 1;
  return layout;
}

NormBackwardArgs args_of(const NormBackwardCall& call, const DeviceShape& device, const NormLayout& layout) {
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
    args.bias_shares = workspace + (call.weight_gradient == nullptr ? 0 : share_floats(call, device, layout));
  }
  args.rows = call.rows;
  args.width = call.width;
  args.per_element = 1.0F / static_cast<float>(call.width);
  args.centered = call.kind == NormKind::kLayer ? 1 : 0;
  args.weight_is_float = call.weight_dtype == DType::kFloat32 ? 1 : 0;
  return args;
}

}  // namespace

NormLayout norm_layout(const NormBackwardCall& call, const DeviceShape& device) {
  const std::int64_t accesses = call.width / vector_elements(call.dtype);
  const NormLayout staged = staged_layout(call, device);
  if (staged.threads > 0 && fits(staged, call, device)) return staged;
  if (accesses <= device.wave) return {1, narrow_lanes(accesses), 128, 5, 2};
  NormLayout layout;
  layout.accesses = call.sum_gradient != nullptr && accesses <= kBackwardThreads ? 1 : kAccesses;
  layout.row_threads = row_threads(accesses, layout.accesses, device.wave, kBackwardThreads);
  // Short rows share a block, so that there are few shares to add up.
  layout.threads = layout.row_threads <= 64 ? 256 : layout.row_threads;
  layout.blocks = backward_resident(layout.accesses) / layout.threads;
  return layout;
}

std::size_t norm_backward_workspace(const NormBackwardCall& call, const DeviceShape& device) {
  return norm_backward_workspace(call, device, norm_layout(call, device));
}

std::size_t norm_backward_workspace(const NormBackwardCall& call, const DeviceShape& device, const NormLayout& layout) {
  if (call.rows == 0 || call.width == 0) return 0;
  const std::int64_t arrays = (call.weight_gradient != nullptr ? 1 : 0) + (call.bias_gradient != nullptr ? 1 : 0);
  return static_cast<std::size_t>(arrays * share_floats(call, device, layout)) * sizeof(float);
}

Result<Plan> plan_norm_backward(const NormBackwardCall& call, const DeviceShape& device) {
  return plan_norm_backward(call, device, norm_layout(call, device));
}

Result<Plan> plan_norm_backward(const NormBackwardCall& call, const DeviceShape& device, const NormLayout& layout) {
  KPT_RETURN_IF_ERROR(check(call, device, layout));
  Plan plan;
  if (call.rows == 0 || call.width == 0) {  // sums over no rows are zeros
    if (call.width > 0) add_finish(plan, call, nullptr, nullptr, 0);
    return plan;
  }
  const std::string type(type_suffix(call.dtype));
  const std::int64_t each = vector_elements(call.dtype);
  NormBackwardArgs args = args_of(call, device, layout);
  const bool in_registers =
      call.width % each == 0 && call.width / each <= std::int64_t{kAccesses} * kBackwardThreads &&
      are_aligned({call.gradient, call.input, call.weight, call.sum_gradient, call.input_gradient});
  if (in_registers) {
    if (!fits(layout, call, device)) return invalid_call("norm_backward", "the layout does not fit");
    args.blocks = backward_blocks(call, device, layout);
    args.row_threads = layout.row_threads;
    args.stages = layout.stages;
    std::string name = fmt::format("{}", layout.accesses);
    if (layout.rows > 1) name = fmt::format("_narrow{}{}", layout.stages > 0 ? "_staged" : "", layout.rows);
    if (layout.rows == 1 && layout.stages > 0) name = fmt::format("_staged{}", layout.accesses);
    Launch launch = make_launch(fmt::format("norm_backward{}_{}", name, type), args.blocks, args, layout.threads);
    if (layout.stages > 0) launch.shared_bytes = static_cast<std::uint32_t>(staged_bytes(layout, call));
    plan.push_back(std::move(launch));
  } else {
    args.blocks = any_blocks(call, device);
    plan.push_back(
        make_launch("norm_backward_any_" + type, args.blocks, args, row_threads(call.width, 4, device.wave, 512)));
  }
  add_finish(plan, call, args.weight_shares, args.bias_shares, args.blocks);
  return plan;
}

}  // namespace kpt::gpu
