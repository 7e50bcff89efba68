#include <string>

#include "kernels/gpu/plan_checks.h"
#include "kernels/gpu/reduce.h"
#include "kernels/gpu/reduce_kernels.h"

namespace kpt::gpu {
namespace {

constexpr std::string_view kReduceName = "reduce";
constexpr int kThreads = 128;  // of blocks whose waves have a result each

bool gives_truth(ReduceOp op) { return op == ReduceOp::kAny || op == ReduceOp::kAll; }

bool gives_place(ReduceOp op) { return op == ReduceOp::kPlaceOfMaximum || op == ReduceOp::kPlaceOfMinimum; }

bool needs_elements(ReduceOp op) { return op == ReduceOp::kMaximum || op == ReduceOp::kMinimum || gives_place(op); }

Status check_types(const ReduceCall& call) {
  if (call.op < ReduceOp::kSum || call.op > ReduceOp::kPlaceOfMinimum)
    return invalid_call(kReduceName, "no such operation");
  const bool known = is_kernel_type(call.dtype) || (call.dtype == DType::kBool && gives_truth(call.op)) ||
                     (call.dtype == DType::kInt64 && gives_place(call.op));
  if (!known) return invalid_call(kReduceName, fmt::format("no kernel for {}", to_string(call.dtype)));
  if (gives_place(call.op)) {
    return call.output_dtype == DType::kInt64 ? Status() : invalid_call(kReduceName, "places are int64");
  }
  const bool fits = gives_truth(call.op) ? call.output_dtype == DType::kBool
                                         : call.output_dtype == call.dtype || call.output_dtype == DType::kFloat32;
  return fits ? Status() : invalid_call(kReduceName, "the output must be of the input's type or float32");
}

Result<std::int64_t> count_axes(const std::vector<ReduceAxis>& axes) {
  std::int64_t count = 1;
  for (const ReduceAxis& axis : axes) {
    KPT_RETURN_IF_ERROR(check_sizes(kReduceName, {count, axis.extent}));
    count *= axis.extent;
  }
  return count;
}

Status fill_axes(const std::vector<ReduceAxis>& axes, Int64 (&dims)[kReduceAxes], Int64 (&strides)[kReduceAxes]) {
  std::vector<ReduceAxis> joined;
  for (const ReduceAxis& axis : axes) {
    if (axis.extent == 1) continue;
    if (!joined.empty() && joined.back().stride == axis.stride * axis.extent) {
      joined.back() = {joined.back().extent * axis.extent, axis.stride};
    } else {
      joined.push_back(axis);
    }
  }
  if (joined.size() > kReduceAxes) {
    return invalid_call(kReduceName,
                        fmt::format("{} axes that cannot be joined, at most {}", joined.size(), kReduceAxes));
  }
  for (std::size_t axis = 0; axis < kReduceAxes; ++axis) dims[axis] = 1;
  for (std::size_t axis = 0; axis < joined.size(); ++axis) {
    dims[kReduceAxes - joined.size() + axis] = joined[axis].extent;
    strides[kReduceAxes - joined.size() + axis] = joined[axis].stride;
  }
  return {};
}

}  // namespace

Result<Plan> plan_reduce(const ReduceCall& call, const DeviceShape& device) {
  KPT_RETURN_IF_ERROR(check_types(call));
  ReduceArgs args{};
  KPT_ASSIGN_OR_RETURN(args.results, count_axes(call.kept));
  KPT_ASSIGN_OR_RETURN(args.count, count_axes(call.reduced));
  if (args.results == 0) return Plan{};
  if (args.count == 0 && needs_elements(call.op)) {
    return invalid_call(kReduceName, "there is no extreme of nothing");
  }
  if (call.output == nullptr || (call.input == nullptr && args.count > 0)) {
    return invalid_call(kReduceName, "input and output must be given");
  }
  KPT_RETURN_IF_ERROR(fill_axes(call.kept, args.kept_dims, args.kept_strides));
  KPT_RETURN_IF_ERROR(fill_axes(call.reduced, args.reduced_dims, args.reduced_strides));
  args.input = call.input;
  args.output = call.output;
  args.op = call.op;
  args.output_is_float = call.output_dtype == DType::kFloat32 ? 1 : 0;
  const std::int64_t blocks = divide_up(args.results, kThreads / device.wave);
  KPT_RETURN_IF_ERROR(check_blocks(kReduceName, blocks));
  std::string type = call.dtype == DType::kBool ? "bool" : "i64";
  if (is_kernel_type(call.dtype)) type = type_suffix(call.dtype);
  const std::string kind = gives_place(call.op) ? "extreme_" : "reduce_";
  return Plan{make_launch(kind + type, blocks, args, kThreads)};
}

}  // namespace kpt::gpu
