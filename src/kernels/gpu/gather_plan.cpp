#include "kernels/gpu/gather.h"
#include "kernels/gpu/gather_kernels.h"
#include "kernels/gpu/plan_checks.h"

namespace kpt::gpu {
namespace {

// `name`: of the operation, for messages.
Status check(const GatherCall& call, std::string_view name) {
  const std::size_t bytes = element_bytes(call.dtype);
  if (bytes > 8) return invalid_call(name, fmt::format("no kernel for {}", to_string(call.dtype)));
  if (call.dims.size() > kGatherAxes) {
    return invalid_call(name, fmt::format("{} axes, at most {}", call.dims.size(), kGatherAxes));
  }
  if (call.axes.empty() || call.axes.size() > kGatherIndices) {
    return invalid_call(name, fmt::format("{} tensors of indices, 1 to {}", call.axes.size(), kGatherIndices));
  }
  bool fits = call.source_strides.size() == call.dims.size();
  for (const GatherAxis& axis : call.axes) fits = fits && axis.strides.size() == call.dims.size();
  if (!fits) return invalid_call(name, "strides and extents differ in number");
  std::int64_t count = 1;
  for (const std::int64_t extent : call.dims) {
    KPT_RETURN_IF_ERROR(check_sizes(name, {count, extent}));
    count *= extent;
  }
  if (count == 0) return {};
  bool given = call.source != nullptr && call.output != nullptr;
  for (const GatherAxis& axis : call.axes) given = given && axis.indices != nullptr;
  return given ? Status() : invalid_call(name, "source, indices and output must be given");
}

// `name`: as kernels and messages begin.
Result<Plan> plan(const GatherCall& call, std::string_view name) {
  KPT_RETURN_IF_ERROR(check(call, name));
  GatherArgs args{};
  args.source = call.source;
  args.output = call.output;
  args.out_of_range = call.out_of_range;
  args.count = 1;
  const std::size_t skipped = kGatherAxes - call.dims.size();
  for (std::int64_t& extent : args.dims) extent = 1;
  for (std::size_t axis = 0; axis < call.dims.size(); ++axis) {
    args.dims[skipped + axis] = call.dims[axis];
    args.source_strides[skipped + axis] = call.source_strides[axis];
    args.count *= call.dims[axis];
  }
  if (args.count == 0) return Plan{};
  for (std::size_t i = 0; i < call.axes.size(); ++i) {
    GatherIndex& index = args.indices[i];
    index.data = static_cast<const Int64*>(call.axes[i].indices);
    index.extent = call.axes[i].extent;
    index.source_stride = call.axes[i].source_stride;
    for (std::size_t axis = 0; axis < call.dims.size(); ++axis) {
      index.strides[skipped + axis] = call.axes[i].strides[axis];
    }
  }
  args.used = static_cast<Int32>(call.axes.size());
  args.wrap = call.wrap ? 1 : 0;
  const std::int64_t blocks = divide_up(args.count, kItemThreads);
  KPT_RETURN_IF_ERROR(check_blocks(name, blocks));
  return Plan{make_launch(fmt::format("{}_b{}", name, 8 * element_bytes(call.dtype)), blocks, args, kItemThreads)};
}

}  // namespace

Result<Plan> plan_gather(const GatherCall& call, const DeviceShape& /*device*/) { return plan(call, "gather"); }
Result<Plan> plan_scatter(const GatherCall& call, const DeviceShape& /*device*/) { return plan(call, "scatter"); }

}  // namespace kpt::gpu
