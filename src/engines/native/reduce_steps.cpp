#include "engines/native/reduce_steps.h"

#include <algorithm>

#include <fmt/format.h>

#include "engines/native/elementwise_steps.h"
#include "kernels/gpu/reduce.h"

namespace kpt::native {

using gpu::ReduceOp;

Status add_reduction(PlanBuilder& plan, ReduceOp op, View input, const std::vector<std::size_t>& axes,
                     const View& output) {
  const bool truth = op == ReduceOp::kAny || op == ReduceOp::kAll;
  const bool place = op == ReduceOp::kPlaceOfMaximum || op == ReduceOp::kPlaceOfMinimum;
  if (!truth && !place) {
    if (!is_floating(output.dtype)) {
      return not_covered(fmt::format("there is no such reduction to {}", to_string(output.dtype)));
    }
    if (input.dtype != output.dtype) {
      KPT_ASSIGN_OR_RETURN(input, cast(plan, input, DType::kFloat32));
    }
  } else if (truth && !is_floating(input.dtype)) {
    KPT_ASSIGN_OR_RETURN(input, cast(plan, input, DType::kBool));
  }
  gpu::ReduceCall call;
  call.op = op;
  call.dtype = input.dtype;
  call.output_dtype = output.dtype;
  std::int64_t results = 1;
  for (std::size_t axis = 0; axis < input.dims.size(); ++axis) {
    const bool reduced = axes.empty() || std::ranges::find(axes, axis) != axes.end();
    (reduced ? call.reduced : call.kept).push_back({input.dims[axis], input.strides[axis]});
    if (!reduced) results *= input.dims[axis];  // a part of the input's product
  }
  if (count_elements(output) != results) return not_covered("the result has another number of elements");
  plan.add({input, output}, [=](const Addresses& at, const gpu::DeviceShape& shape) {
    gpu::ReduceCall placed = call;
    placed.input = at.of(input);
    placed.output = at.of(output);
    return gpu::plan_reduce(placed, shape);
  });
  return {};
}

}  // namespace kpt::native
