#include "engines/native/window_steps.h"

#include <algorithm>

#include <fmt/format.h>

#include "engines/native/elementwise_steps.h"
#include "passes/node_arguments.h"

namespace kpt::native {

Status read_plane(const ir::Node& node, std::string_view name, std::size_t axes, std::int64_t least,
                  std::int64_t (&values)[kPlane]) {
  const auto given = ints_argument(node, name, std::vector<std::int64_t>{});
  if (!given) return not_covered(fmt::format("argument '{}' is computed by the model", name));
  if (given->size() > axes) return not_covered(fmt::format("argument '{}' has too many numbers", name));
  for (std::size_t axis = 0; axis < axes && !given->empty(); ++axis) {
    const std::int64_t value = given->size() == 1 ? given->front() : (*given)[axis];
    constexpr std::int64_t kMost = std::int64_t{1} << 31U;
    if (value < least || value > kMost) return not_covered(fmt::format("argument '{}' is out of range", name));
    values[kPlane - axes + axis] = value;
  }
  return {};
}

std::optional<std::int64_t> count_places(std::int64_t extent, std::int64_t size, std::int64_t stride,
                                         std::int64_t dilation) {
  if (extent < 1 || size < 1 || size - 1 > (extent - 1) / dilation) return std::nullopt;
  return (extent - 1 - dilation * (size - 1)) / stride + 1;
}

std::int64_t step_stride(std::int64_t stride, std::int64_t step, std::int64_t extent) {
  return extent > 1 ? stride * step : 0;
}

Status add_padding(PlanBuilder& plan, const View& input, const std::vector<Margins>& margins, const Number& fill,
                   const View& output) {
  View source = input;
  View target = output;
  const std::size_t skipped = input.dims.size() - margins.size();
  for (std::size_t i = 0; i < margins.size(); ++i) {
    const std::size_t axis = skipped + i;
    const auto [before, behind] = margins[i];
    const std::int64_t cut = std::max<std::int64_t>(-before, 0);
    const std::int64_t kept = input.dims[axis] - cut - std::max<std::int64_t>(-behind, 0);
    if (kept < 0 || output.dims[axis] != input.dims[axis] + before + behind) return not_covered("it cuts off too much");
    source = sliced(source, axis, cut, kept, 1);
    target = sliced(target, axis, std::max<std::int64_t>(before, 0), kept, 1);
  }
  const Number number = truncated(fill, output.dtype);
  ElementStep step;
  step.in_integers = !is_floating(output.dtype) && !number.is_real;
  KPT_RETURN_IF_ERROR(add_elements(plan, step, {{std::nullopt, number}}, output));
  return copy_into(plan, source, target);
}

Result<View> padded(PlanBuilder& plan, const View& input, const std::int64_t (&padding)[kPlane], const Number& fill) {
  if (padding[0] == 0 && padding[1] == 0) return input;
  Dims dims = input.dims;
  std::vector<Margins> margins;
  for (std::size_t axis = 0; axis < kPlane; ++axis) {
    dims[dims.size() - kPlane + axis] += 2 * padding[axis];
    margins.push_back({padding[axis], padding[axis]});
  }
  KPT_ASSIGN_OR_RETURN(const View wide, plan.make(input.dtype, dims));
  KPT_RETURN_IF_ERROR(add_padding(plan, input, margins, fill, wide));
  return wide;
}

}  // namespace kpt::native
