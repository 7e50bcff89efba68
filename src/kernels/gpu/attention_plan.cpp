#include <string>

#include "kernels/gpu/attention.h"
#include "kernels/gpu/attention_forward.h"
#include "kernels/gpu/plan_checks.h"

namespace kpt::gpu {
namespace {

constexpr std::string_view kAttentionName = "attention";

// The kernels are for AMD's matrix units.
Status not_served(std::string_view why) {
  return {StatusCode::kAttention, fmt::format("{}: {}", kAttentionName, why), Vendor::kAmd};
}

Result<MaskKind> mask_kind(const AttentionCall& call) {
  if (call.mask == nullptr) return MaskKind::kNone;
  if (call.mask_dtype == DType::kBool) return MaskKind::kKept;
  if (call.mask_dtype == DType::kFloat32) return MaskKind::kAddedFloat;
  if (call.mask_dtype == call.dtype) return MaskKind::kAdded;
  return not_served("the mask must be bool, float32 or of the query's type");
}

Status check(const AttentionCall& call) {
  KPT_RETURN_IF_ERROR(
      check_sizes(kAttentionName, {call.batches, call.heads, call.queries, std::max(call.keys, call.width)}));
  KPT_RETURN_IF_ERROR(check_sizes(kAttentionName, {call.batches, call.groups, call.keys, call.width}));
  if (call.groups == 0 || call.heads % call.groups != 0) {
    return not_served("the heads of the queries are no multiple of those of the keys");
  }
  if (call.keys >= (std::int64_t{1} << 30)) return not_served("there are more keys than 30 bits can count");
  const std::int64_t most = std::max({call.batches, call.heads, call.queries, call.keys});
  for (const RowStrides& strides :
       {call.query_strides, call.key_strides, call.value_strides, call.output_strides, call.mask_strides}) {
    for (const std::int64_t stride : strides) KPT_RETURN_IF_ERROR(check_sizes(kAttentionName, {stride, most}));
  }
  const bool some_keys = call.keys > 0;
  if (call.output == nullptr || call.query == nullptr ||
      (some_keys && (call.key == nullptr || call.value == nullptr))) {
    return invalid_call(kAttentionName, "query, key, value and output must be given");
  }
  return {};
}

AttentionStrides strides_of(const RowStrides& strides) { return {strides[0], strides[1], strides[2]}; }

}  // namespace

bool fits_attention(const AttentionCall& call, MatrixUnit unit) {
  if (unit == MatrixUnit::kNone || (call.width != 64 && call.width != 128)) return false;
  if (call.dtype != DType::kFloat16 && call.dtype != DType::kBFloat16) return false;
  for (const RowStrides& strides : {call.query_strides, call.key_strides, call.value_strides, call.output_strides}) {
    if (!are_multiples({strides[0], strides[1], strides[2]}, 8)) return false;
  }
  return are_aligned({call.query, call.key, call.value, call.output});
}

Result<Plan> plan_attention(const AttentionCall& call, const DeviceShape& device) {
  if (!fits_attention(call, device.matrix)) {
    return not_served("there is no kernel for the device, the type, the width, the strides or the addresses");
  }
  if (call.batches == 0 || call.heads == 0 || call.queries == 0) return Plan{};
  KPT_RETURN_IF_ERROR(check(call));
  AttentionArgs args{};
  KPT_ASSIGN_OR_RETURN(args.mask_kind, mask_kind(call));
  args.query = call.query;
  args.key = call.key;
  args.value = call.value;
  args.mask = call.mask;
  args.output = call.output;
  args.query_strides = strides_of(call.query_strides);
  args.key_strides = strides_of(call.key_strides);
  args.value_strides = strides_of(call.value_strides);
  args.mask_strides = strides_of(call.mask_strides);
  args.output_strides = strides_of(call.output_strides);
  args.heads = call.heads;
  args.heads_each = call.heads / call.groups;
  args.queries = call.queries;
  args.keys = call.keys;
  args.query_tiles = divide_up(call.queries, kAttentionQueries);
  // A greater offset hides nothing, a smaller one everything; in this range index + offset cannot overflow.
  args.causal_offset = std::clamp(call.causal_offset, -call.queries - 1, call.keys);
  args.scale = call.scale;
  args.causal = call.causal ? 1 : 0;
  const std::int64_t blocks = call.batches * call.heads * args.query_tiles;
  KPT_RETURN_IF_ERROR(check_blocks(kAttentionName, blocks));
  return Plan{
      make_launch(fmt::format("attention_{}_{}_{}", unit_name(device.matrix), type_suffix(call.dtype), call.width),
                  blocks, args, kAttentionThreads)};
}

}  // namespace kpt::gpu
