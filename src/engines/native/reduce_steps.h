// A step that reduces axes of a tensor, for rules of all kinds.
#pragma once

#include <cstddef>
#include <vector>

#include "engines/native/plan_builder.h"
#include "engines/native/view.h"
#include "kernels/gpu/reduce_kernels.h"

namespace kpt::native {

// output = op over the axes of the input; none: over all. The output is contiguous. Truths are bools, places int64,
// everything else is of the input's type or float32.
Status add_reduction(PlanBuilder& plan, gpu::ReduceOp op, View input, const std::vector<std::size_t>& axes,
                     const View& output);

}  // namespace kpt::native
