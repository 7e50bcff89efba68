// What is read and written by tensors of indices.
#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "engines/native/elementwise_steps.h"
#include "engines/native/rules.h"
#include "kernels/gpu/gather.h"
#include "passes/node_arguments.h"

namespace kpt::native {
namespace {

// The indices of one axis of the source, broadcast to the output.
struct IndexedAxis {
  View indices;  // of the output's extents
  std::int64_t extent = 0;
  std::int64_t stride = 0;
};

// Which elements of a tensor are chosen: those of the other axes as they are, those of some by indices.
struct Choice {
  Dims dims;                          // of what is chosen
  std::vector<std::int64_t> strides;  // of the tensor, by axis of what is chosen; 0 on those that come from indices
  std::vector<IndexedAxis> axes;
  bool wrap = false;  // a negative index counts from the end
};

// `forth`: output = what is chosen of the source. Otherwise what is chosen of the output = source. The one that is not
// chosen from is contiguous.
void add_move(PlanBuilder& plan, const Choice& choice, const View& source, const View& output, bool forth) {
  gpu::GatherCall call;
  call.dtype = output.dtype;
  call.dims = {choice.dims.begin(), choice.dims.end()};
  call.source_strides = choice.strides;
  call.wrap = choice.wrap;
  const std::vector<IndexedAxis>& axes = choice.axes;
  std::vector<View> used = {source, output};
  for (const IndexedAxis& axis : axes) {
    call.axes.push_back(
        {nullptr, {axis.indices.strides.begin(), axis.indices.strides.end()}, axis.extent, axis.stride});
    used.push_back(axis.indices);
  }
  const View flag = plan.add_flag();
  plan.add(used, [=](const Addresses& at, const gpu::DeviceShape& shape) {
    gpu::GatherCall placed = call;
    placed.source = at.of(source);
    placed.output = at.of(output);
    placed.out_of_range = static_cast<std::int32_t*>(at.of(flag));
    for (std::size_t i = 0; i < axes.size(); ++i) placed.axes[i].indices = at.of(axes[i].indices);
    return forth ? gpu::plan_gather(placed, shape) : gpu::plan_scatter(placed, shape);
  });
}

Result<View> index_view(PlanBuilder& plan, ir::ValueId id) {
  KPT_ASSIGN_OR_RETURN(const View view, plan.value(id));
  if (view.dtype == DType::kBool || view.dtype == DType::kUInt8) return not_covered("it chooses by a mask");
  return cast(plan, view, DType::kInt64);
}

// One axis by a list of indices, the others as they are.
Result<Choice> choose_rows(const View& tensor, std::size_t axis, View indices) {
  if (indices.dims.empty()) indices = with_axis(indices, 0);
  if (indices.dims.size() != 1) return not_covered("its indices are no list");
  Choice choice;
  choice.dims = tensor.dims;
  choice.dims[axis] = indices.dims[0];
  while (indices.dims.size() + axis < tensor.dims.size()) indices = with_axis(indices, indices.dims.size());
  const auto wide = expanded(indices, choice.dims);
  if (!wide) return not_covered("the indices do not fit");
  choice.strides.assign(tensor.strides.begin(), tensor.strides.end());
  choice.strides[axis] = 0;
  choice.axes = {{*wide, tensor.dims[axis], tensor.strides[axis]}};
  return choice;
}

Result<View> read_indices(PlanBuilder& plan, const ir::Node& node) {
  const ir::ValueId id = value_argument(node, "index");
  if (id == ir::kNoValue) return not_covered("argument 'index' is no tensor");
  return index_view(plan, id);
}

Status lower_index_select(PlanBuilder& plan, const ir::Node& node) {
  KPT_ASSIGN_OR_RETURN(const View source, plan.tensor(node, "self"));
  KPT_ASSIGN_OR_RETURN(const std::size_t axis, plan.axis(node, "dim", source.dims.size(), std::nullopt));
  KPT_ASSIGN_OR_RETURN(const View indices, read_indices(plan, node));
  KPT_ASSIGN_OR_RETURN(const Choice choice, choose_rows(source, axis, indices));
  KPT_ASSIGN_OR_RETURN(const View output, plan.make_result(node));
  KPT_RETURN_IF_ERROR(check_result(output, source.dtype, choice.dims));
  add_move(plan, choice, source, output, true);
  return {};
}

Status lower_gather(PlanBuilder& plan, const ir::Node& node) {
  KPT_ASSIGN_OR_RETURN(const View source, plan.tensor(node, "self"));
  KPT_ASSIGN_OR_RETURN(const std::size_t axis, plan.axis(node, "dim", source.dims.size(), std::nullopt));
  KPT_ASSIGN_OR_RETURN(const View indices, read_indices(plan, node));
  KPT_ASSIGN_OR_RETURN(const View output, plan.make_result(node));
  const auto wide = expanded(indices, output.dims);
  if (!wide || output.dims.size() != source.dims.size() || output.dtype != source.dtype) {
    return not_covered("the indices do not fit");
  }
  for (std::size_t other = 0; other < source.dims.size(); ++other) {
    if (other != axis && output.dims[other] > source.dims[other]) return not_covered("the indices do not fit");
  }
  Choice choice{output.dims, {source.strides.begin(), source.strides.end()}, {}, false};
  choice.strides[axis] = 0;
  choice.axes = {{*wide, source.dims[axis], source.strides[axis]}};
  add_move(plan, choice, source, output, true);
  return {};
}

// The extents that tensors of indices have together; nothing when they do not fit each other.
std::optional<Dims> broadcast(const std::vector<std::optional<View>>& views) {
  std::size_t rank = 0;
  for (const auto& view : views) rank = std::max(rank, view ? view->dims.size() : 0);
  Dims dims;
  for (std::size_t axis = 0; axis < rank; ++axis) dims.push_back(1);
  for (const auto& view : views) {
    if (!view) continue;
    for (std::size_t axis = 0; axis < view->dims.size(); ++axis) {
      std::int64_t& extent = dims[rank - view->dims.size() + axis];
      if (view->dims[axis] == 1) continue;
      if (extent != 1 && extent != view->dims[axis]) return std::nullopt;
      extent = view->dims[axis];
    }
  }
  return dims;
}

// Tensors of indices take the place of axes; where they stand apart, in front of all others.
Result<Choice> choose_by_list(PlanBuilder& plan, const ir::Node& node, const View& tensor) {
  const ir::Argument* argument = find_argument(node, "indices");
  if (argument == nullptr || argument->list() == nullptr) return not_covered("its indices are no list");
  std::vector<std::optional<View>> by_axis(tensor.dims.size());
  const auto& items = argument->list()->items;
  if (items.size() > by_axis.size()) return not_covered("there are more indices than axes");
  std::size_t first = by_axis.size();
  std::size_t last = 0;
  std::size_t used = 0;
  for (std::size_t axis = 0; axis < items.size(); ++axis) {
    const ir::ValueId* id = items[axis].value_id();
    if (id == nullptr) continue;
    KPT_ASSIGN_OR_RETURN(by_axis[axis], index_view(plan, *id));
    first = std::min(first, axis);
    last = axis;
    ++used;
  }
  if (used == 0) return not_covered("there are no indices");
  const auto chosen = broadcast(by_axis);
  if (!chosen || tensor.dims.size() - used + chosen->size() > kMaxRank) return not_covered("the indices do not fit");
  const std::size_t rank = chosen->size();
  const std::size_t place = last - first + 1 == used ? first : 0;
  Choice choice;
  choice.wrap = true;
  std::vector<std::size_t> kept;
  for (std::size_t axis = 0; axis < tensor.dims.size(); ++axis) {
    if (!by_axis[axis]) kept.push_back(axis);
  }
  for (std::size_t i = 0; i < kept.size() + rank; ++i) {
    const bool by_index = i >= place && i < place + rank;
    const std::size_t axis = by_index ? 0 : kept[i < place ? i : i - rank];
    choice.dims.push_back(by_index ? (*chosen)[i - place] : tensor.dims[axis]);
    choice.strides.push_back(by_index ? 0 : tensor.strides[axis]);
  }
  for (std::size_t axis = 0; axis < tensor.dims.size(); ++axis) {
    if (!by_axis[axis]) continue;
    const View wide = expanded(*by_axis[axis], *chosen).value_or(*by_axis[axis]);
    View indices = wide;  // as axes of what is chosen: along the others it has stride 0
    indices.dims = choice.dims;
    indices.strides = choice.dims;
    for (std::size_t i = 0; i < choice.dims.size(); ++i) {
      indices.strides[i] = i >= place && i < place + rank ? wide.strides[i - place] : 0;
    }
    choice.axes.push_back({indices, tensor.dims[axis], tensor.strides[axis]});
  }
  return choice;
}

Status lower_index(PlanBuilder& plan, const ir::Node& node) {
  KPT_ASSIGN_OR_RETURN(const View source, plan.tensor(node, "self"));
  KPT_ASSIGN_OR_RETURN(const Choice choice, choose_by_list(plan, node, source));
  KPT_ASSIGN_OR_RETURN(const View output, plan.make_result(node));
  KPT_RETURN_IF_ERROR(check_result(output, source.dtype, choice.dims));
  add_move(plan, choice, source, output, true);
  return {};
}

// `values` of the extents of the choice, in one piece and of the type.
Status add_scatter(PlanBuilder& plan, const Choice& choice, const View& values, const View& target) {
  if (values.dtype != target.dtype) return not_covered("what is written is of another type");
  const auto wide = expanded(values, choice.dims);
  if (!wide) return not_covered("what is written does not fit");
  KPT_ASSIGN_OR_RETURN(const View dense, contiguous(plan, *wide));
  add_move(plan, choice, dense, target, false);
  return {};
}

// What may be written, as the node's result: `self` of a node that writes in place, a copy of it otherwise.
Result<View> writable_self(PlanBuilder& plan, const ir::Node& node) {
  KPT_ASSIGN_OR_RETURN(const View self, plan.tensor(node, "self"));
  if (plan.target()) {
    KPT_RETURN_IF_ERROR(plan.define_result(node, self));
    return self;
  }
  KPT_ASSIGN_OR_RETURN(const View output, plan.make_result(node));
  KPT_RETURN_IF_ERROR(check_result(output, self.dtype, self.dims));
  KPT_RETURN_IF_ERROR(copy_into(plan, self, output));
  return output;
}

Status lower_index_copy(PlanBuilder& plan, const ir::Node& node) {
  KPT_ASSIGN_OR_RETURN(const View output, writable_self(plan, node));
  KPT_ASSIGN_OR_RETURN(const std::size_t axis, plan.axis(node, "dim", output.dims.size(), std::nullopt));
  KPT_ASSIGN_OR_RETURN(const View indices, read_indices(plan, node));
  KPT_ASSIGN_OR_RETURN(const View values, plan.tensor(node, "source"));
  KPT_ASSIGN_OR_RETURN(const Choice choice, choose_rows(output, axis, indices));
  if (!(values.dims == choice.dims)) return not_covered("what is written does not fit");
  return add_scatter(plan, choice, values, output);
}

Status lower_index_put(PlanBuilder& plan, const ir::Node& node) {
  if (bool_argument(node, "accumulate", false).value_or(true)) return not_covered("it adds to what is there");
  KPT_ASSIGN_OR_RETURN(const View output, writable_self(plan, node));
  KPT_ASSIGN_OR_RETURN(const View values, plan.tensor(node, "values"));
  KPT_ASSIGN_OR_RETURN(const Choice choice, choose_by_list(plan, node, output));
  return add_scatter(plan, choice, values, output);
}

constexpr RuleRow kIndicesRules[] = {
    {"aten.gather.default", lower_gather},
    {"aten.index.Tensor", lower_index},
    {"aten.index_copy.default", lower_index_copy},
    {"aten.index_put.default", lower_index_put},
    {"aten.index_select.default", lower_index_select},
};

}  // namespace

std::span<const RuleRow> index_rules() { return kIndicesRules; }

}  // namespace kpt::native
