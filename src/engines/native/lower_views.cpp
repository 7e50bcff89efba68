// Views: no step where strides say it, a copy where they cannot.
#include <algorithm>

#include <fmt/format.h>

#include "engines/native/elementwise_steps.h"
#include "engines/native/rules.h"
#include "passes/node_arguments.h"

namespace kpt::native {
namespace {

// To the extents that the file says: view, reshape, flatten, squeeze, …
Status lower_reshape(PlanBuilder& plan, const ir::Node& node) {
  KPT_ASSIGN_OR_RETURN(const View input, plan.tensor(node, "self"));
  const ir::ValueId id = only_result(node);
  if (id == ir::kNoValue) return not_covered("the result is no tensor");
  KPT_ASSIGN_OR_RETURN(const Dims dims, plan.dims(id));
  std::optional<View> result = reshaped(input, dims);
  if (!result) {
    KPT_ASSIGN_OR_RETURN(const View copy, contiguous(plan, input));
    result = reshaped(copy, dims);
  }
  if (!result) return not_covered("the numbers of elements differ");
  return plan.define_result(node, *result);
}

Status lower_expand(PlanBuilder& plan, const ir::Node& node) {
  KPT_ASSIGN_OR_RETURN(const View input, plan.tensor(node, "self"));
  const ir::ValueId id = only_result(node);
  if (id == ir::kNoValue) return not_covered("the result is no tensor");
  KPT_ASSIGN_OR_RETURN(const Dims dims, plan.dims(id));
  const auto result = expanded(input, dims);
  if (!result) return not_covered("the extents do not fit");
  return plan.define_result(node, *result);
}

Status lower_unsqueeze(PlanBuilder& plan, const ir::Node& node) {
  KPT_ASSIGN_OR_RETURN(const View input, plan.tensor(node, "self"));
  if (input.dims.size() == kMaxRank) return not_covered("a tensor has too many axes");
  KPT_ASSIGN_OR_RETURN(const std::size_t axis, plan.axis(node, "dim", input.dims.size() + 1, std::nullopt));
  return plan.define_result(node, with_axis(input, axis));
}

Status lower_transpose(PlanBuilder& plan, const ir::Node& node) {
  KPT_ASSIGN_OR_RETURN(const View input, plan.tensor(node, "self"));
  KPT_ASSIGN_OR_RETURN(const std::size_t first, plan.axis(node, "dim0", input.dims.size(), std::nullopt));
  KPT_ASSIGN_OR_RETURN(const std::size_t second, plan.axis(node, "dim1", input.dims.size(), std::nullopt));
  return plan.define_result(node, transposed(input, first, second));
}

Status lower_t(PlanBuilder& plan, const ir::Node& node) {
  KPT_ASSIGN_OR_RETURN(const View input, plan.tensor(node, "self"));
  return plan.define_result(node, input.dims.size() == 2 ? transposed(input, 0, 1) : input);
}

Status lower_permute(PlanBuilder& plan, const ir::Node& node) {
  KPT_ASSIGN_OR_RETURN(const View input, plan.tensor(node, "self"));
  KPT_ASSIGN_OR_RETURN(const auto order, plan.axes(node, "dims", input.dims.size()));
  std::vector<std::size_t> named = order;
  std::ranges::sort(named);
  if (named.size() != input.dims.size() || std::ranges::adjacent_find(named) != named.end()) {
    return not_covered("the order does not name every axis once");
  }
  return plan.define_result(node, permuted(input, order));
}

Status lower_slice(PlanBuilder& plan, const ir::Node& node) {
  KPT_ASSIGN_OR_RETURN(const View input, plan.tensor(node, "self"));
  KPT_ASSIGN_OR_RETURN(const std::size_t axis, plan.axis(node, "dim", input.dims.size(), 0));
  KPT_ASSIGN_OR_RETURN(const std::int64_t given, plan.integer(node, "start", 0));
  KPT_ASSIGN_OR_RETURN(const std::int64_t step, plan.integer(node, "step", 1));
  const ir::ValueId id = only_result(node);
  if (id == ir::kNoValue) return not_covered("the result is no tensor");
  KPT_ASSIGN_OR_RETURN(const Dims dims, plan.dims(id));
  const std::int64_t extent = input.dims[axis];
  const std::int64_t start = std::clamp<std::int64_t>(given < 0 ? given + extent : given, 0, extent);
  if (dims.size() != input.dims.size() || step < 1 ||
      (dims[axis] > 0 && (start >= extent || dims[axis] - 1 > (extent - 1 - start) / step))) {
    return not_covered("the slice does not lie within its axis");
  }
  return plan.define_result(node, sliced(input, axis, start, dims[axis], step));
}

Status lower_select(PlanBuilder& plan, const ir::Node& node) {
  KPT_ASSIGN_OR_RETURN(const View input, plan.tensor(node, "self"));
  KPT_ASSIGN_OR_RETURN(const std::size_t axis, plan.axis(node, "dim", input.dims.size(), std::nullopt));
  KPT_ASSIGN_OR_RETURN(const std::int64_t given, plan.integer(node, "index", std::nullopt));
  const auto index = axis_of(given, static_cast<std::size_t>(input.dims[axis]));
  if (!index) return not_covered(fmt::format("there is no element {}", given));
  return plan.define_result(node, without_axis(sliced(input, axis, static_cast<std::int64_t>(*index), 1, 1), axis));
}

// split, split_with_sizes, chunk: parts side by side, as large as the file says.
Status lower_split(PlanBuilder& plan, const ir::Node& node) {
  KPT_ASSIGN_OR_RETURN(const View input, plan.tensor(node, "self"));
  KPT_ASSIGN_OR_RETURN(const std::size_t axis, plan.axis(node, "dim", input.dims.size(), 0));
  if (node.outputs.size() != 1 || !node.outputs[0].is_list) return not_covered("the result is no list");
  std::int64_t start = 0;
  for (const ir::ValueId id : node.outputs[0].values) {
    KPT_ASSIGN_OR_RETURN(const Dims dims, plan.dims(id));
    if (dims.size() != input.dims.size() || dims[axis] > input.dims[axis] - start) {
      return not_covered("the parts do not fit");
    }
    const View part = sliced(input, axis, start, dims[axis], 1);
    if (!(part.dims == dims) || part.dtype != plan.dtype(id)) return not_covered("the parts do not fit");
    plan.define(id, part);
    start += dims[axis];
  }
  return {};
}

Status lower_same(PlanBuilder& plan, const ir::Node& node) {
  KPT_ASSIGN_OR_RETURN(const View input, plan.tensor(node, "self"));
  return plan.define_result(node, input);
}

// A copy may be the original where nobody writes it.
Status define_copy(PlanBuilder& plan, const ir::Node& node, const View& input) {
  if (!plan.is_written(input)) return plan.define_result(node, input);
  KPT_ASSIGN_OR_RETURN(const View output, plan.make_result(node));
  KPT_RETURN_IF_ERROR(check_result(output, input.dtype, input.dims));
  return copy_into(plan, input, output);
}

Status lower_clone(PlanBuilder& plan, const ir::Node& node) {
  KPT_ASSIGN_OR_RETURN(const View input, plan.tensor(node, "self"));
  return define_copy(plan, node, input);
}

// As PyTorch sees it, which copies where it is not so.
bool lies_in(ir::MemoryFormat format, const View& view) {
  if (format == ir::MemoryFormat::kContiguous || format == ir::MemoryFormat::kPreserve) return is_contiguous(view);
  const std::size_t rank = format == ir::MemoryFormat::kChannelsLast ? 4U : 5U;
  if (view.dims.size() != rank) return false;
  std::vector<std::size_t> order = {0};
  for (std::size_t axis = 2; axis < rank; ++axis) order.push_back(axis);
  order.push_back(1);
  return is_contiguous(permuted(view, order));
}

Status lower_contiguous(PlanBuilder& plan, const ir::Node& node) {
  KPT_ASSIGN_OR_RETURN(const View input, plan.tensor(node, "self"));
  const ir::MemoryFormat format = format_argument(node, "memory_format").value_or(ir::MemoryFormat::kContiguous);
  return lies_in(format, input) ? plan.define_result(node, input) : define_copy(plan, node, input);
}

Status lower_dropout(PlanBuilder& plan, const ir::Node& node) {
  if (bool_argument(node, "train").value_or(true)) return not_covered("it draws random numbers");
  const std::string_view name = find_argument(node, "self") != nullptr ? "self" : "input";  // the former in place
  KPT_ASSIGN_OR_RETURN(const View input, plan.tensor(node, name));
  return plan.define_result(node, input);
}

// What it asserts of types and sizes is what the plan was made from.
Status lower_nothing(PlanBuilder& /*plan*/, const ir::Node& /*node*/) { return {}; }

constexpr RuleRow kViewsRules[] = {
    {"aten._assert_tensor_metadata.default", lower_nothing},
    {"aten._unsafe_view.default", lower_reshape},
    {"aten.alias.default", lower_same},
    {"aten.chunk.default", lower_split},
    {"aten.clone.default", lower_clone},
    {"aten.contiguous.default", lower_contiguous},
    {"aten.detach.default", lower_same},
    {"aten.dropout.default", lower_dropout},
    {"aten.dropout_.default", lower_dropout},
    {"aten.expand.default", lower_expand},
    {"aten.expand_as.default", lower_expand},
    {"aten.flatten.using_ints", lower_reshape},
    {"aten.permute.default", lower_permute},
    {"aten.reshape.default", lower_reshape},
    {"aten.select.int", lower_select},
    {"aten.slice.Tensor", lower_slice},
    {"aten.split.Tensor", lower_split},
    {"aten.split_with_sizes.default", lower_split},
    {"aten.squeeze.default", lower_reshape},
    {"aten.squeeze.dim", lower_reshape},
    {"aten.squeeze.dims", lower_reshape},
    {"aten.t.default", lower_t},
    {"aten.transpose.int", lower_transpose},
    {"aten.unflatten.int", lower_reshape},
    {"aten.unsqueeze.default", lower_unsqueeze},
    {"aten.view.default", lower_reshape},
};

}  // namespace

std::span<const RuleRow> view_rules() { return kViewsRules; }

}  // namespace kpt::native
