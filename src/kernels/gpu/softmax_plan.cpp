#include <string>

#include "kernels/gpu/plan_checks.h"
#include "kernels/gpu/softmax.h"
#include "kernels/gpu/softmax_kernels.h"

namespace kpt::gpu {
namespace {

constexpr int kPasses = 4;                // accesses that a lane keeps in registers
constexpr int kSoftmaxWaveThreads = 128;  // of blocks whose waves have a row each

Result<MaskKind> mask_kind(const SoftmaxCall& call) {
  if (call.mask == nullptr) return MaskKind::kNone;
  if (call.mask_dtype == DType::kBool) return MaskKind::kKept;
  if (call.mask_dtype == DType::kFloat32) return MaskKind::kAddedFloat;
  if (call.mask_dtype == call.dtype) return MaskKind::kAdded;
  return invalid_call("softmax", "the mask must be bool, float32 or of the input's type");
}

Status check(const SoftmaxCall& call) {
  constexpr std::string_view kSoftmaxName = "softmax";
  if (!is_kernel_type(call.dtype))
    return invalid_call(kSoftmaxName, fmt::format("no kernel for {}", to_string(call.dtype)));
  KPT_RETURN_IF_ERROR(
      check_sizes(kSoftmaxName, {call.batches, call.heads, call.queries, std::max(call.width, call.input_stride)}));
  KPT_RETURN_IF_ERROR(check_sizes(kSoftmaxName, {call.width, call.input_stride}));
  for (const std::int64_t stride : {call.mask_batch_stride, call.mask_head_stride, call.mask_query_stride}) {
    KPT_RETURN_IF_ERROR(check_sizes(kSoftmaxName, {stride, std::max({call.batches, call.heads, call.queries})}));
  }
  if (call.batches * call.heads * call.queries * call.width > 0 && (call.input == nullptr || call.output == nullptr)) {
    return invalid_call(kSoftmaxName, "input and output must be given");
  }
  return {};
}

bool fits_vectors(const SoftmaxCall& call) {
  const std::int64_t each = vector_elements(call.dtype);
  return are_multiples(
             {call.width, call.input_stride, call.mask_batch_stride, call.mask_head_stride, call.mask_query_stride},
             each) &&
         are_aligned({call.input, call.output, call.mask});
}

}  // namespace

Result<Plan> plan_softmax(const SoftmaxCall& call, const DeviceShape& device) {
  KPT_RETURN_IF_ERROR(check(call));
  SoftmaxArgs args{};
  KPT_ASSIGN_OR_RETURN(args.mask_kind, mask_kind(call));
  args.rows = call.batches * call.heads * call.queries;
  if (args.rows == 0 || call.width == 0) return Plan{};
  KPT_RETURN_IF_ERROR(check_blocks("softmax", args.rows));
  args.input = call.input;
  args.mask = call.mask;
  args.output = call.output;
  args.width = call.width;
  args.heads = call.heads;
  args.queries = call.queries;
  args.input_stride = call.input_stride;
  args.mask_batch_stride = call.mask_batch_stride;
  args.mask_head_stride = call.mask_head_stride;
  args.mask_query_stride = call.mask_query_stride;
  // A greater offset hides nothing, a smaller one everything; in this range index + offset cannot overflow.
  args.causal_offset = std::clamp(call.causal_offset, -call.queries - 1, call.width);
  args.causal = call.causal ? 1 : 0;
  args.empty_is_nan = call.empty_is_nan ? 1 : 0;
  args.scale = call.scale;

  const std::string type(type_suffix(call.dtype));
  const std::int64_t accesses = call.width / vector_elements(call.dtype);
  if (fits_vectors(call) && accesses <= kPasses * device.wave) {
    const std::int64_t blocks = divide_up(args.rows, kSoftmaxWaveThreads / device.wave);
    return Plan{make_launch("softmax_wave_" + type, blocks, args, kSoftmaxWaveThreads)};
  }
  if (fits_vectors(call) && accesses <= kPasses * kMaxThreads) {
    const int threads = row_threads(accesses, 2, device.wave, kMaxThreads);
    return Plan{make_launch("softmax_block_" + type, args.rows, args, threads)};
  }
  return Plan{make_launch("softmax_streamed_" + type, args.rows, args, row_threads(call.width, 4, device.wave, 512))};
}

}  // namespace kpt::gpu
