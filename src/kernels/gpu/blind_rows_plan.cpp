#include "kernels/gpu/blind_rows.h"
#include "kernels/gpu/blind_rows_kernels.h"
#include "kernels/gpu/plan_checks.h"

namespace kpt::gpu {
namespace {

constexpr std::string_view kBlindRowsName = "blind_rows";
constexpr int kBlindRowsThreads = 128;  // a wave for each row of the mask

Status check(const BlindRowsCall& call) {
  if (call.dtype != DType::kFloat16 && call.dtype != DType::kBFloat16) {
    return invalid_call(kBlindRowsName, fmt::format("no kernel for {}", to_string(call.dtype)));
  }
  KPT_RETURN_IF_ERROR(check_sizes(kBlindRowsName, {call.batches, call.heads, call.queries, call.width}));
  const std::int64_t axes[][3] = {{call.batches, call.mask_batch_stride, call.result_batch_stride},
                                  {call.heads, call.mask_head_stride, call.result_head_stride},
                                  {call.queries, call.mask_query_stride, call.result_query_stride},
                                  {call.keys, call.mask_key_stride, call.width}};
  for (const auto& axis : axes) {
    KPT_RETURN_IF_ERROR(check_sizes(kBlindRowsName, {axis[0], axis[1]}));
    KPT_RETURN_IF_ERROR(check_sizes(kBlindRowsName, {axis[0], axis[2]}));
  }
  const bool empty = call.batches * call.heads * call.queries * call.width == 0;
  if (!empty && call.keys == 0) return invalid_call(kBlindRowsName, "there are no keys");
  if (!empty && (call.mask == nullptr || call.result == nullptr)) {
    return invalid_call(kBlindRowsName, "mask and result must be given");
  }
  return {};
}

}  // namespace

Result<Plan> plan_blind_rows(const BlindRowsCall& call, const DeviceShape& device) {
  KPT_RETURN_IF_ERROR(check(call));
  const bool per_head = call.mask_head_stride != 0;
  const std::int64_t each = vector_elements(call.dtype);
  BlindRowsArgs args{};
  args.mask = static_cast<const UInt16*>(call.mask);
  args.result = static_cast<UInt16*>(call.result);
  args.mask_heads = per_head ? call.heads : 1;
  args.shared_heads = per_head ? 1 : call.heads;
  args.rows = call.batches * args.mask_heads * call.queries;
  args.keys = call.keys;
  args.width = call.width;
  args.queries = call.queries;
  args.mask_batch_stride = call.mask_batch_stride;
  args.mask_head_stride = call.mask_head_stride;
  args.mask_query_stride = call.mask_query_stride;
  args.mask_key_stride = call.mask_key_stride;
  args.result_batch_stride = call.result_batch_stride;
  args.result_head_stride = call.result_head_stride;
  args.result_query_stride = call.result_query_stride;
  args.hidden = call.dtype == DType::kBFloat16 ? 0xff80 : 0xfc00;
  const bool mask_fits =
      call.mask_key_stride == 1 && are_aligned({call.mask}) &&
      are_multiples({call.keys, call.mask_batch_stride, call.mask_head_stride, call.mask_query_stride}, each);
  const bool result_fits =
      are_aligned({call.result}) &&
      are_multiples({call.width, call.result_batch_stride, call.result_head_stride, call.result_query_stride}, each);
  args.mask_vectors = mask_fits ? 1 : 0;
  args.result_vectors = result_fits ? 1 : 0;
  if (args.rows * args.shared_heads * call.width == 0) return Plan{};
  const std::int64_t blocks = divide_up(args.rows, kBlindRowsThreads / device.wave);
  KPT_RETURN_IF_ERROR(check_blocks(kBlindRowsName, blocks));
  return Plan{make_launch("blind_rows_b16", blocks, args, kBlindRowsThreads)};
}

}  // namespace kpt::gpu
