#include <string>

#include "kernels/gpu/convert.h"
#include "kernels/gpu/convert_kernels.h"
#include "kernels/gpu/plan_checks.h"
#include "kernels/gpu/quantize_kernels.h"
#include "kernels/gpu/transpose_kernels.h"

namespace kpt::gpu {
namespace {

std::string joined(std::string_view kind, DType from, DType to) {
  return fmt::format("{}_{}_{}", kind, type_suffix(from), type_suffix(to));
}

Status no_kernel(std::string_view kernel, DType from, DType to) {
  return invalid_call(kernel, fmt::format("no kernel from {} to {}", to_string(from), to_string(to)));
}

float largest_number(DType dtype) {
  if (dtype == DType::kFloat8E4M3FN) return 448;
  if (dtype == DType::kFloat8E4M3FNUZ) return 240;
  return dtype == DType::kInt8 ? 127.0F : 57344.0F;
}

std::int64_t share_blocks(std::int64_t count, const DeviceShape& device) {
  const std::int64_t wanted = divide_up(count, std::int64_t{kItemThreads} * kQuantizeVector);
  return std::clamp<std::int64_t>(wanted, 1, std::int64_t{4} * std::max(device.multiprocessors, 1));
}

}  // namespace

Result<Plan> plan_convert(const ConvertCall& call, const DeviceShape& /*device*/) {
  const bool quantizes = is_kernel_type(call.from) && is_quantized_type(call.to);
  const bool restores = is_quantized_type(call.from) && is_kernel_type(call.to);
  const bool casts = is_kernel_type(call.from) && is_kernel_type(call.to) && call.from != call.to;
  if (!quantizes && !restores && !casts) return no_kernel("convert", call.from, call.to);
  KPT_RETURN_IF_ERROR(check_sizes("convert", {call.count}));
  KPT_RETURN_IF_ERROR(check_sizes("convert", {call.row_width}));
  if (casts != (call.scale == nullptr)) {
    return invalid_call("convert", casts ? "a cast between float types takes no scale" : "a scale must be given");
  }
  if (call.count == 0) return Plan{};
  if (call.input == nullptr || call.output == nullptr) return invalid_call("convert", "input and output must be given");
  ConvertArgs args{};
  args.input = call.input;
  args.output = call.output;
  args.scale = call.scale;
  args.count = call.count;
  args.row_width = call.row_width;
  const bool vectors = are_aligned({call.input, call.output}) && call.row_width % kConvertVector == 0;
  args.vectors = vectors ? 1 : 0;
  const std::int64_t items = vectors ? divide_up(call.count, kConvertVector) : call.count;
  const std::int64_t blocks = divide_up(items, kItemThreads);
  KPT_RETURN_IF_ERROR(check_blocks("convert", blocks));
  const std::string_view kind = casts ? "cast" : (quantizes ? "quantize" : "dequantize");
  return Plan{make_launch(joined(kind, call.from, call.to), blocks, args, kItemThreads)};
}

Result<Plan> plan_quantize_rows(const QuantizeRowsCall& call, const DeviceShape& device) {
  constexpr std::string_view kConvertName = "quantize_rows";
  if (!is_kernel_type(call.from) || !is_quantized_type(call.to)) return no_kernel(kConvertName, call.from, call.to);
  KPT_RETURN_IF_ERROR(check_sizes(kConvertName, {call.rows, std::max(call.width, call.input_stride)}));
  KPT_RETURN_IF_ERROR(check_sizes(kConvertName, {call.width, call.input_stride}));
  if (call.rows == 0) return Plan{};
  KPT_RETURN_IF_ERROR(check_blocks(kConvertName, call.rows));
  if (call.scale == nullptr || (call.width > 0 && (call.input == nullptr || call.output == nullptr))) {
    return invalid_call(kConvertName, "input, output and scale must be given");
  }
  QuantizeRowsArgs args{};
  args.input = call.input;
  args.output = call.output;
  args.scale = call.scale;
  args.width = call.width;
  args.input_stride = call.input_stride;
  const bool vectors = are_multiples({call.width, call.input_stride}, kQuantizeVector) && are_aligned({call.input}) &&
                       is_aligned(call.output, kQuantizeVector);
  args.vectors = vectors ? 1 : 0;
  const int threads = row_threads(vectors ? call.width / kQuantizeVector : call.width, 2, device.wave, 512);
  return Plan{make_launch(joined("quantize_rows", call.from, call.to), call.rows, args, threads)};
}

std::size_t tensor_scale_workspace(const TensorScaleCall& call, const DeviceShape& device) {
  return static_cast<std::size_t>(share_blocks(std::max<std::int64_t>(call.count, 0), device)) * sizeof(float);
}

Result<Plan> plan_tensor_scale(const TensorScaleCall& call, const DeviceShape& device) {
  constexpr std::string_view kConvertName = "tensor_scale";
  if (!is_kernel_type(call.from) || !is_quantized_type(call.to) || call.to == DType::kInt8) {
    return no_kernel(kConvertName, call.from, call.to);
  }
  KPT_RETURN_IF_ERROR(check_sizes(kConvertName, {call.count}));
  if ((call.count > 0 && call.input == nullptr) || call.workspace == nullptr || !is_aligned(call.workspace, 16)) {
    return invalid_call(kConvertName, "input and a workspace aligned to 16 bytes must be given");
  }
  LargestArgs args{};
  args.input = call.input;
  args.shares = static_cast<float*>(call.workspace);
  args.count = call.count;
  args.blocks = share_blocks(call.count, device);
  args.vectors = are_aligned({call.input}) ? 1 : 0;
  TensorScaleArgs finish{};
  finish.shares = args.shares;
  finish.largest = call.largest;
  finish.scale = call.scale;
  finish.blocks = args.blocks;
  finish.type_largest = largest_number(call.to);
  return Plan{make_launch("largest_" + std::string(type_suffix(call.from)), args.blocks, args, kItemThreads),
              make_launch("tensor_scale_f32", 1, finish, kItemThreads)};
}

namespace {

// A row of the tensor at a time, and no more blocks than keep the device busy.
std::int64_t row_blocks(std::int64_t rows, const DeviceShape& device) {
  return std::clamp<std::int64_t>(rows, 1, std::int64_t{4} * std::max(device.multiprocessors, 1));
}

Status check_quantize_tensor(const QuantizeTensorCall& call, std::string_view name) {
  const bool known = call.to == DType::kFloat8E4M3FN || call.to == DType::kFloat8E5M2;
  if (!is_kernel_type(call.from) || !known) return no_kernel(name, call.from, call.to);
  KPT_RETURN_IF_ERROR(check_sizes(name, {call.rows, std::max(call.width, call.input_stride)}));
  KPT_RETURN_IF_ERROR(check_sizes(name, {call.width, call.input_stride}));
  const MagnitudeHistory& history = call.history;
  if (history.magnitudes != nullptr && (history.position == nullptr || history.capacity < 1)) {
    return invalid_call(name, "a history needs a position and room for a run");
  }
  if (call.rows == 0 || call.width == 0) return {};
  if (call.input == nullptr || call.output == nullptr || call.scale == nullptr) {
    return invalid_call(name, "input, output and scale must be given");
  }
  if (call.workspace == nullptr || !is_aligned(call.workspace, 16)) {
    return invalid_call(name, "a workspace aligned to 16 bytes must be given");
  }
  const bool follows = history.magnitudes != nullptr && history.begun;
  if (!follows && call.rows > 1 && call.input_stride != call.width) {
    return invalid_call(name, "rows with gaps need a history that has begun");
  }
  return {};
}

}  // namespace

std::size_t quantize_tensor_workspace(const QuantizeTensorCall& call, const DeviceShape& device) {
  const std::int64_t rows = std::max<std::int64_t>(call.rows, 0);
  const std::int64_t width = std::max<std::int64_t>(call.width, 0);
  return static_cast<std::size_t>(std::max(share_blocks(rows * width, device), row_blocks(rows, device))) *
         sizeof(float);
}

Result<Plan> plan_quantize_tensor(const QuantizeTensorCall& call, const DeviceShape& device) {
  constexpr std::string_view kConvertName = "quantize_tensor";
  KPT_RETURN_IF_ERROR(check_quantize_tensor(call, kConvertName));
  if (call.rows == 0 || call.width == 0) return Plan{};
  const MagnitudeHistory& history = call.history;
  const bool remembers = history.magnitudes != nullptr;
  auto* shares = static_cast<float*>(call.workspace);
  QuantizeTensorArgs args{};
  args.input = call.input;
  args.output = call.output;
  args.scale = call.scale;
  args.rows = call.rows;
  args.width = call.width;
  args.input_stride = call.input_stride;
  args.blocks = row_blocks(call.rows, device);
  Plan plan;
  std::int64_t share_count = args.blocks;
  if (remembers && history.begun) {
    args.magnitudes = history.magnitudes;
    args.magnitude_count = history.capacity;
    args.shares = shares;
  } else {
    LargestArgs largest{};
    largest.input = call.input;
    largest.shares = shares;
    largest.count = call.rows * call.width;
    largest.blocks = share_count = share_blocks(largest.count, device);
    largest.vectors = are_aligned({call.input}) ? 1 : 0;
    plan.push_back(
        make_launch("largest_" + std::string(type_suffix(call.from)), largest.blocks, largest, kItemThreads));
    args.magnitudes = shares;
    args.magnitude_count = share_count;
  }
  const bool vectors = are_multiples({call.width, call.input_stride}, kQuantizeVector) && are_aligned({call.input}) &&
                       is_aligned(call.output, kQuantizeVector);
  args.vectors = vectors ? 1 : 0;
  const int threads = row_threads(vectors ? call.width / kQuantizeVector : call.width, 2, device.wave, 512);
  plan.push_back(make_launch(joined(kConvertName, call.from, call.to), args.blocks, args, threads));
  if (remembers) {
    RememberLargestArgs remember{shares, history.magnitudes, history.position, share_count, history.capacity, 0};
    plan.push_back(make_launch("remember_largest_f32", 1, remember, kItemThreads));
  }
  return plan;
}

namespace {

// Empty where there is none.
std::string transpose_kernel(const TransposeCall& call) {
  if (call.from == call.to) {
    const std::size_t bytes = element_bytes(call.from);
    return bytes == 1 || bytes == 2 || bytes == 4 ? fmt::format("transpose_b{}", 8 * bytes) : "";
  }
  if (!is_kernel_type(call.from) || call.to == DType::kInt8) return "";
  const bool shortens = is_quantized_type(call.to);
  const bool casts = is_kernel_type(call.to) && (call.from == DType::kFloat32 || call.to == DType::kFloat32);
  return shortens || casts ? joined("transpose", call.from, call.to) : "";
}

bool fits_pairs(const void* address, DType dtype, std::int64_t width, std::int64_t stride, std::int64_t batch_stride) {
  return is_aligned(address, 2 * element_bytes(dtype)) && are_multiples({width, stride, batch_stride}, 2);
}

}  // namespace

Result<Plan> plan_transpose(const TransposeCall& call, const DeviceShape& /*device*/) {
  constexpr std::string_view kConvertName = "transpose";
  const std::string kernel = transpose_kernel(call);
  if (kernel.empty()) return no_kernel(kConvertName, call.from, call.to);
  const bool scales = is_quantized_type(call.to) && call.from != call.to;
  if (scales == (call.scale == nullptr)) {
    return invalid_call(kConvertName,
                        scales ? "a scale must be given" : "a transpose between these types takes no scale");
  }
  for (const std::int64_t stride : {call.input_stride, call.input_batch_stride}) {
    KPT_RETURN_IF_ERROR(check_sizes(kConvertName, {std::max(call.batches, call.rows), std::max(stride, call.columns)}));
    KPT_RETURN_IF_ERROR(check_sizes(kConvertName, {stride}));
  }
  for (const std::int64_t stride : {call.output_stride, call.output_batch_stride}) {
    KPT_RETURN_IF_ERROR(check_sizes(kConvertName, {std::max(call.batches, call.columns), std::max(stride, call.rows)}));
    KPT_RETURN_IF_ERROR(check_sizes(kConvertName, {stride}));
  }
  KPT_RETURN_IF_ERROR(check_sizes(kConvertName, {call.batches, call.rows, call.columns}));
  if (call.batches == 0 || call.rows == 0 || call.columns == 0) return Plan{};
  if (call.input == nullptr || call.output == nullptr)
    return invalid_call(kConvertName, "input and output must be given");
  TransposeArgs args{};
  args.input = call.input;
  args.output = call.output;
  args.scale = call.scale;
  args.rows = call.rows;
  args.columns = call.columns;
  args.input_stride = call.input_stride;
  args.output_stride = call.output_stride;
  args.input_batch_stride = call.input_batch_stride;
  args.output_batch_stride = call.output_batch_stride;
  args.row_tiles = divide_up(call.rows, kTile);
  args.column_tiles = divide_up(call.columns, kTile);
  args.input_pairs =
      fits_pairs(call.input, call.from, call.columns, call.input_stride, call.input_batch_stride) ? 1 : 0;
  args.output_pairs = fits_pairs(call.output, call.to, call.rows, call.output_stride, call.output_batch_stride) ? 1 : 0;
  const std::int64_t blocks = call.batches * args.row_tiles * args.column_tiles;
  KPT_RETURN_IF_ERROR(check_blocks(kConvertName, blocks));
  return Plan{make_launch(kernel, blocks, args, kItemThreads)};
}

}  // namespace kpt::gpu
