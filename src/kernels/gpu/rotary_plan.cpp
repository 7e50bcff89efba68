#include <algorithm>
#include <string>

#include "kernels/gpu/plan_checks.h"
#include "kernels/gpu/rotary.h"
#include "kernels/gpu/rotary_kernels.h"

namespace kpt::gpu {
namespace {

Status check(const RotaryCall& call) {
  constexpr std::string_view kRotaryName = "rotary";
  if (!is_kernel_type(call.dtype))
    return invalid_call(kRotaryName, fmt::format("no kernel for {}", to_string(call.dtype)));
  if (call.table_dtype != call.dtype && call.table_dtype != DType::kFloat32) {
    return invalid_call(kRotaryName, "cosines and sines must be of the input's type or float32");
  }
  if (call.width % 2 != 0) return invalid_call(kRotaryName, fmt::format("the width is {}, which is odd", call.width));
  KPT_RETURN_IF_ERROR(check_sizes(kRotaryName, {call.sizes[0], call.sizes[1], call.sizes[2], call.width}));
  for (const auto& strides : {call.input_strides, call.cosine_strides, call.sine_strides}) {
    for (std::size_t axis = 0; axis < 3; ++axis) {
      KPT_RETURN_IF_ERROR(check_sizes(kRotaryName, {call.sizes[axis], strides[axis]}));
    }
  }
  const bool empty = std::ranges::find(call.sizes, 0) != call.sizes.end() || call.width == 0;
  if (!empty && (call.input == nullptr || call.cosines == nullptr || call.sines == nullptr || call.result == nullptr)) {
    return invalid_call(kRotaryName, "input, cosines, sines and result must be given");
  }
  return {};
}

bool fits_vectors(const RotaryCall& call) {
  const std::int64_t each = vector_elements(call.dtype);
  if (call.interleaved || call.width / 2 % each != 0) return false;
  for (const auto& strides : {call.input_strides, call.cosine_strides, call.sine_strides}) {
    if (!are_multiples({strides[0], strides[1], strides[2]}, each)) return false;
  }
  return are_aligned({call.input, call.cosines, call.sines, call.result});
}

}  // namespace

Result<Plan> plan_rotary(const RotaryCall& call, const DeviceShape& /*device*/) {
  KPT_RETURN_IF_ERROR(check(call));
  const std::int64_t rows = call.sizes[0] * call.sizes[1] * call.sizes[2];
  if (rows == 0 || call.width == 0) return Plan{};
  const bool vectors = fits_vectors(call);
  RotaryArgs args{};
  args.input = call.input;
  args.cosines = call.cosines;
  args.sines = call.sines;
  args.result = call.result;
  args.width = call.width;
  args.items = rows * (call.width / 2) / (vectors ? vector_elements(call.dtype) : 1);
  args.middle = call.sizes[1];
  args.inner = call.sizes[2];
  std::ranges::copy(call.input_strides, args.input_strides);
  std::ranges::copy(call.cosine_strides, args.cosine_strides);
  std::ranges::copy(call.sine_strides, args.sine_strides);
  args.tables_are_float = call.table_dtype == DType::kFloat32 ? 1 : 0;
  args.interleaved = call.interleaved ? 1 : 0;
  args.inverse = call.inverse ? 1 : 0;
  args.vectors = vectors ? 1 : 0;
  const std::int64_t blocks = divide_up(args.items, kItemThreads);
  KPT_RETURN_IF_ERROR(check_blocks("rotary", blocks));
  return Plan{make_launch("rotary_" + std::string(type_suffix(call.dtype)), blocks, args, kItemThreads)};
}

}  // namespace kpt::gpu
