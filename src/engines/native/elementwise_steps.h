// Steps that compute element by element, for rules of all kinds.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engines/native/plan_builder.h"
#include "engines/native/view.h"
#include "kernels/gpu/device_math.h"
#include "kernels/gpu/elementwise_kernels.h"

namespace kpt::native {

// A tensor, broadcast to the result, or a number.
struct Element {
  std::optional<View> view;
  Number number;
};

struct ElementStep {
  gpu::ElementOp op = gpu::ElementOp::kCopy;
  bool in_integers = false;
  gpu::Activation activation = gpu::Activation::kNone;
  Number factor{1, 1, false};
};

// The number as elements of the type hold it: without its fraction where they are integers, which must not go through
// float32.
Number truncated(const Number& number, DType dtype);

// output = op(inputs). Fails when an input cannot be broadcast to the output.
Status add_elements(PlanBuilder& plan, const ElementStep& step, const std::vector<Element>& inputs, const View& output);

// The same elements in contiguous memory; the view itself where they lie so.
Result<View> contiguous(PlanBuilder& plan, const View& view);
// The same numbers in another type; the view itself where they have it.
Result<View> cast(PlanBuilder& plan, const View& view, DType dtype);
Status copy_into(PlanBuilder& plan, const View& source, const View& target);

// Rows over the last `inner` axes, by a copy where the elements do not lie so.
struct RowView {
  View view;
  Rows rows;
};
Result<RowView> rows_of(PlanBuilder& plan, const View& view, std::size_t inner = 1);

}  // namespace kpt::native
