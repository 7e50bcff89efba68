#include <bit>
#include <string>

#include "kernels/gpu/plan_checks.h"
#include "kernels/gpu/weight_only.h"
#include "kernels/gpu/weight_only_kernels.h"

namespace kpt::gpu {
namespace {

constexpr std::string_view kWeightOnlyName = "weight_only";
constexpr std::string_view kUnpackName = "unpack_int4";

FloatType float_type(DType dtype) {
  if (dtype == DType::kFloat16) return FloatType::kHalf;
  return dtype == DType::kBFloat16 ? FloatType::kBFloat : FloatType::kFloat;
}

Status check_types(const WeightOnlyCall& call) {
  if (call.weight_dtype != DType::kInt8 && call.weight_dtype != DType::kUInt8) {
    return invalid_call(kWeightOnlyName, fmt::format("no kernel for weights of {}", to_string(call.weight_dtype)));
  }
  for (const DType dtype : {call.input_dtype, call.bias_dtype, call.residual_dtype, call.output_dtype}) {
    if (!is_kernel_type(dtype)) return invalid_call(kWeightOnlyName, fmt::format("no kernel for {}", to_string(dtype)));
  }
  if (call.activation < Activation::kNone || call.activation > Activation::kRelu6) {
    return invalid_call(kWeightOnlyName, "no such activation");
  }
  return {};
}

Status check_extents(const WeightOnlyCall& call) {
  KPT_RETURN_IF_ERROR(check_sizes(kWeightOnlyName, {call.columns, std::max<std::int64_t>(call.depth, 1), 4}));
  KPT_RETURN_IF_ERROR(check_sizes(kWeightOnlyName, {call.depth, call.group}));
  for (const std::int64_t stride : {call.input_stride, call.residual_stride, call.columns}) {
    KPT_RETURN_IF_ERROR(check_sizes(kWeightOnlyName, {call.rows, stride}));
  }
  if (call.rows > kMostWeightOnlyRows) {
    return invalid_call(kWeightOnlyName,
                        fmt::format("{} rows, and it takes at most {}", call.rows, kMostWeightOnlyRows));
  }
  if (call.weight_dtype == DType::kUInt8 && (call.group <= 0 || call.depth % call.group != 0 || call.depth % 2 != 0)) {
    return invalid_call(kWeightOnlyName,
                        fmt::format("groups of {} do not divide a depth of {} in pairs", call.group, call.depth));
  }
  return {};
}

// Whether a lane may take 16 bytes of weights, and what belongs to them, at a time.
bool takes_vectors(const WeightOnlyCall& call) {
  const bool halves = call.weight_dtype == DType::kUInt8;
  if (call.depth % (halves ? 32 : 16) != 0 || call.input_stride % 8 != 0) return false;
  if (!are_aligned({call.input, call.weight})) return false;
  return !halves || (call.group >= 32 && std::has_single_bit(static_cast<std::uint64_t>(call.group)));
}

// Waves that share a depth: until there are enough of them to keep the memory busy, each with two chunks at least.
std::int32_t share_depth(const WeightOnlyCall& call, const DeviceShape& device) {
  const std::int64_t sets = divide_up(call.columns, kWeightColumns);
  const std::int64_t chunk = device.wave * (call.weight_dtype == DType::kUInt8 ? 32 : 16);
  const std::int64_t most = kWeightThreads / device.wave;
  std::int64_t parts = 1;
  while (2 * parts <= most && sets * parts < std::int64_t{16} * device.multiprocessors &&
         4 * parts * chunk <= call.depth) {
    parts *= 2;
  }
  return static_cast<std::int32_t>(parts);
}

}  // namespace

Result<Plan> plan_weight_only(const WeightOnlyCall& call, const DeviceShape& device) {
  KPT_RETURN_IF_ERROR(check_types(call));
  KPT_RETURN_IF_ERROR(check_extents(call));
  if (call.rows == 0 || call.columns == 0) return Plan{};
  if (call.output == nullptr ||
      (call.depth > 0 && (call.input == nullptr || call.weight == nullptr || call.scale == nullptr))) {
    return invalid_call(kWeightOnlyName, "input, weight, scale and output must be given");
  }
  if (call.scale == nullptr && call.weight_dtype == DType::kInt8) {
    return invalid_call(kWeightOnlyName, "a scale must be given");
  }
  WeightOnlyArgs args{};
  args.input = call.input;
  args.weight = call.weight;
  args.scale = call.scale;
  args.bias = call.bias;
  args.residual = call.residual;
  args.output = call.output;
  args.columns = call.columns;
  args.depth = call.depth;
  args.input_stride = call.input_stride;
  args.residual_stride = call.residual_stride;
  args.group = call.group;
  args.bias_type = float_type(call.bias_dtype);
  args.residual_type = float_type(call.residual_dtype);
  args.output_type = float_type(call.output_dtype);
  args.activation = call.activation;
  args.rows = static_cast<std::int32_t>(call.rows);
  args.parts = share_depth(call, device);
  args.vectors = takes_vectors(call) ? 1 : 0;
  const bool halves = call.weight_dtype == DType::kUInt8;
  args.group_shift = halves ? std::countr_zero(static_cast<std::uint64_t>(call.group)) : 0;
  const std::int64_t sets = kWeightThreads / device.wave / args.parts;
  const std::int64_t blocks = divide_up(divide_up(call.columns, kWeightColumns), sets);
  KPT_RETURN_IF_ERROR(check_blocks(kWeightOnlyName, blocks));
  const auto rows = std::bit_ceil(static_cast<std::uint64_t>(call.rows));
  return Plan{make_launch(fmt::format("weight_{}_{}_{}", halves ? "i4" : "i8", rows, type_suffix(call.input_dtype)),
                          blocks, args, kWeightThreads)};
}

Result<Plan> plan_unpack_int4(const UnpackInt4Call& call, const DeviceShape& /*device*/) {
  if (!is_kernel_type(call.to)) {
    return invalid_call(kUnpackName, fmt::format("no kernel for {}", to_string(call.to)));
  }
  KPT_RETURN_IF_ERROR(check_sizes(kUnpackName, {call.count}));
  if (call.count == 0) return Plan{};
  if (call.group <= 0 || call.count % call.group != 0 || call.count % 2 != 0) {
    return invalid_call(kUnpackName,
                        fmt::format("groups of {} do not divide {} elements in pairs", call.group, call.count));
  }
  if (call.input == nullptr || call.output == nullptr || call.scale == nullptr) {
    return invalid_call(kUnpackName, "input, output and scale must be given");
  }
  UnpackInt4Args args{};
  args.input = call.input;
  args.output = call.output;
  args.scale = call.scale;
  args.bytes = call.count / 2;
  args.group = call.group;
  args.vectors = call.group % 8 == 0 && is_aligned(call.input, 4) && is_aligned(call.output, 16) ? 1 : 0;
  const std::int64_t blocks = divide_up(args.vectors != 0 ? args.bytes / 4 : args.bytes, kItemThreads);
  KPT_RETURN_IF_ERROR(check_blocks(kUnpackName, blocks));
  return Plan{make_launch("unpack_i4_" + std::string(type_suffix(call.to)), blocks, args, kItemThreads)};
}

}  // namespace kpt::gpu
