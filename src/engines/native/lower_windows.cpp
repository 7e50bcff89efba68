// Padding, and pools: windows of the input are views, over whose last axes a reduction goes.
#include <algorithm>
#include <limits>

#include "engines/native/reduce_steps.h"
#include "engines/native/rules.h"
#include "engines/native/window_steps.h"
#include "passes/node_arguments.h"

namespace kpt::native {
namespace {

Status lower_pad(PlanBuilder& plan, const ir::Node& node) {
  if (string_argument(node, "mode", "constant") != "constant") return not_covered("it pads with more than a number");
  KPT_ASSIGN_OR_RETURN(const View input, plan.tensor(node, "self"));
  KPT_ASSIGN_OR_RETURN(const Number fill, plan.number(node, "value", 0));
  const auto pad = ints_argument(node, "pad");
  if (!pad) return not_covered("argument 'pad' is computed by the model");
  if (pad->size() % 2 != 0 || pad->size() / 2 > input.dims.size()) return not_covered("argument 'pad' does not fit");
  std::vector<Margins> margins;  // the last axis comes first in the argument
  for (std::size_t i = pad->size(); i > 0; i -= 2) margins.push_back({(*pad)[i - 2], (*pad)[i - 1]});
  constexpr std::int64_t kMost = std::int64_t{1} << 31U;
  for (const auto& [before, behind] : margins) {
    if (std::max(before, behind) > kMost || std::min(before, behind) < -kMost) {
      return not_covered("argument 'pad' is out of range");
    }
  }
  KPT_ASSIGN_OR_RETURN(const View output, plan.make_result(node));
  KPT_RETURN_IF_ERROR(check_result(output, input.dtype, output.dims));
  if (output.dims.size() != input.dims.size()) return not_covered("the result has another number of axes");
  for (std::size_t axis = 0; axis + margins.size() < input.dims.size(); ++axis) {
    if (output.dims[axis] != input.dims[axis]) return not_covered("the result does not fit");
  }
  return add_padding(plan, input, margins, fill, output);
}

struct Windows {
  std::int64_t size[kPlane] = {1, 1};
  std::int64_t stride[kPlane] = {1, 1};
  std::int64_t dilation[kPlane] = {1, 1};
};

// The last two axes of the input as places of windows, and two more behind them as what a window holds.
View windowed(const View& input, const Windows& windows, const Dims& places) {
  View view = input;
  const std::size_t first = input.dims.size() - kPlane;
  for (std::size_t axis = 0; axis < kPlane; ++axis) {
    view.dims[first + axis] = places[first + axis];
    const std::int64_t stride = input.strides[first + axis];
    view.strides[first + axis] = step_stride(stride, windows.stride[axis], places[first + axis]);
    view.dims.push_back(windows.size[axis]);
    view.strides.push_back(step_stride(stride, windows.dilation[axis], windows.size[axis]));
  }
  return view;
}

Status lower_max_pool(PlanBuilder& plan, const ir::Node& node) {
  KPT_ASSIGN_OR_RETURN(const View input, plan.tensor(node, "self"));
  const std::size_t rank = input.dims.size();
  if (rank < kPlane + 1 || rank + kPlane > kMaxRank) return not_covered("pools take batches of two axes");
  if (!is_floating(input.dtype)) return not_covered("its input is no floating-point number");
  Windows windows;
  std::int64_t padding[kPlane] = {0, 0};
  KPT_RETURN_IF_ERROR(read_plane(node, "kernel_size", kPlane, 1, windows.size));
  std::ranges::copy(windows.size, windows.stride);
  KPT_RETURN_IF_ERROR(read_plane(node, "stride", kPlane, 1, windows.stride));
  KPT_RETURN_IF_ERROR(read_plane(node, "dilation", kPlane, 1, windows.dilation));
  KPT_RETURN_IF_ERROR(read_plane(node, "padding", kPlane, 0, padding));
  KPT_ASSIGN_OR_RETURN(const View output, plan.make_result(node));
  Dims wanted = input.dims;
  for (std::size_t axis = 0; axis < kPlane; ++axis) {
    const std::size_t at = rank - kPlane + axis;
    const auto places = count_places(input.dims[at] + 2 * padding[axis], windows.size[axis], windows.stride[axis],
                                     windows.dilation[axis]);
    if (!places) return not_covered("the window is larger than the input");
    wanted[at] = *places;
  }
  KPT_RETURN_IF_ERROR(check_result(output, input.dtype, wanted));  // not so where windows reach beyond the end
  const Number least{-std::numeric_limits<double>::infinity(), 0, true};
  KPT_ASSIGN_OR_RETURN(const View wide, padded(plan, input, padding, least));
  return add_reduction(plan, gpu::ReduceOp::kMaximum, windowed(wide, windows, wanted), {rank, rank + 1}, output);
}

// The places are asked for by backward passes only.
Status lower_max_pool_with_places(PlanBuilder& plan, const ir::Node& node) {
  const ir::ValueId places = result_at(node, 1);
  if (places != ir::kNoValue && plan.is_used(places)) return not_covered("there are no places of the greatest");
  return lower_max_pool(plan, node);
}

// Into a number of equal parts, where the input has such.
Status lower_adaptive_mean(PlanBuilder& plan, const ir::Node& node) {
  KPT_ASSIGN_OR_RETURN(const View input, plan.tensor(node, "self"));
  const std::size_t rank = input.dims.size();
  if (rank < kPlane + 1 || rank + kPlane > kMaxRank) return not_covered("pools take batches of two axes");
  KPT_ASSIGN_OR_RETURN(const View output, plan.make_result(node));
  if (output.dims.size() != rank) return not_covered("the result has another number of axes");
  Windows windows;
  Dims wanted = input.dims;
  for (std::size_t axis = 0; axis < kPlane; ++axis) {
    const std::size_t at = rank - kPlane + axis;
    wanted[at] = output.dims[at];
    if (wanted[at] < 1 || input.dims[at] % wanted[at] != 0) return not_covered("the parts are not of one size");
    windows.size[axis] = windows.stride[axis] = input.dims[at] / wanted[at];
  }
  KPT_RETURN_IF_ERROR(check_result(output, input.dtype, wanted));
  return add_reduction(plan, gpu::ReduceOp::kMean, windowed(input, windows, wanted), {rank, rank + 1}, output);
}

constexpr RuleRow kWindowsRules[] = {
    {"aten.adaptive_avg_pool2d.default", lower_adaptive_mean},
    {"aten.constant_pad_nd.default", lower_pad},
    {"aten.max_pool2d.default", lower_max_pool},
    {"aten.max_pool2d_with_indices.default", lower_max_pool_with_places},
    {"aten.pad.default", lower_pad},
};

}  // namespace

std::span<const RuleRow> window_rules() { return kWindowsRules; }

}  // namespace kpt::native
