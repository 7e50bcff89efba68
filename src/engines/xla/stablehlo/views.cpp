// Operators whose result shares the memory of their argument.
#include <algorithm>

#include "engines/xla/stablehlo/call.h"

namespace kpt::xla {
namespace {

ViewStep reshape_to(const Extents& dims) { return {ViewKind::kReshape, dims, {}, {}}; }

ViewStep slice_axis(const Extents& dims, std::size_t axis, std::int64_t start, std::int64_t limit,
                    std::int64_t stride) {
  ViewStep step{ViewKind::kSlice, Extents(dims.size(), 0), dims, Extents(dims.size(), 1)};
  step.dims[axis] = start;
  step.limits[axis] = limit;
  step.strides[axis] = stride;
  return step;
}

ViewStep permute_to(const Extents& permutation) { return {ViewKind::kPermute, permutation, {}, {}}; }

Extents identity_permutation(std::size_t rank) {
  Extents permutation;
  for (std::size_t axis = 0; axis < rank; ++axis) permutation.push_back(static_cast<std::int64_t>(axis));
  return permutation;
}

// view, squeeze, unsqueeze, flatten: the recorded dims say all.
void lower_view(Call& call) {
  const ViewStep step = reshape_to(call.type().dims);
  call.set_view("self", {&step, 1});
}

void lower_same(Call& call) { call.set_view("self", {}); }

void lower_detach_in_place(Call& call) {
  if (call.writes()) return call.set(call.tensor("self"));
  call.set_view("self", {});
}

void lower_expand(Call& call) {
  const ViewStep step{ViewKind::kExpand, call.type().dims, {}, {}};
  call.set_view("self", {&step, 1});
}

void lower_permute(Call& call) {
  const std::size_t rank = call.tensor("self").rank();
  Extents permutation = call.ints("dims", {});
  if (permutation.size() != rank) refuse("its axes are not those of the tensor");
  for (std::int64_t& axis : permutation) axis = static_cast<std::int64_t>(normalize_axis(axis, rank));
  const ViewStep step = permute_to(permutation);
  call.set_view("self", {&step, 1});
}

void swap_axes(Call& call, std::int64_t first, std::int64_t second) {
  const std::size_t rank = call.tensor("self").rank();
  Extents permutation = identity_permutation(rank);
  const std::size_t from = normalize_axis(first, rank);
  const std::size_t to = normalize_axis(second, rank);
  if (rank > 0) std::swap(permutation[from], permutation[to]);
  const ViewStep step = permute_to(permutation);
  call.set_view("self", {&step, 1});
}

void lower_transpose(Call& call) {
  const bool other_names = call.has("axis0");
  swap_axes(call, call.integer(other_names ? "axis0" : "dim0"), call.integer(other_names ? "axis1" : "dim1"));
}

void lower_matrix_transpose(Call& call) { swap_axes(call, -2, -1); }

void lower_t(Call& call) {
  if (call.tensor("self").rank() < 2) return lower_same(call);
  swap_axes(call, 0, 1);
}

void lower_reversed_axes(Call& call) {
  Extents permutation = identity_permutation(call.tensor("self").rank());
  std::reverse(permutation.begin(), permutation.end());
  const ViewStep step = permute_to(permutation);
  call.set_view("self", {&step, 1});
}

void lower_movedim(Call& call) {
  const std::size_t rank = call.tensor("self").rank();
  const Extents from = call.ints("source", {});
  const Extents to = call.ints("destination", {});
  if (from.size() != to.size()) refuse("it moves other axes than it has places for");
  Extents permutation(rank, -1);
  std::vector<bool> moved(rank, false);
  for (std::size_t index = 0; index < from.size(); ++index) {
    const std::size_t source = normalize_axis(from[index], rank);
    std::int64_t& place = permutation[normalize_axis(to[index], rank)];
    if (moved[source] || place >= 0) refuse("it moves an axis twice or two axes to one place");
    place = static_cast<std::int64_t>(source);
    moved[source] = true;
  }
  std::size_t next = 0;
  for (std::int64_t& axis : permutation) {
    if (axis >= 0) continue;
    while (moved[next]) ++next;
    axis = static_cast<std::int64_t>(next++);
  }
  const ViewStep step = permute_to(permutation);
  call.set_view("self", {&step, 1});
}

std::int64_t clamp_index(std::int64_t index, std::int64_t extent) {
  return std::clamp<std::int64_t>(index < 0 ? index + extent : index, 0, extent);
}

void lower_slice(Call& call) {
  const Extents dims = call.tensor("self").dims;
  const std::size_t axis = call.axis("dim", dims.size(), 0);
  const std::int64_t extent = dims.at(axis);
  const std::int64_t stride = call.integer("step", 1);
  if (stride < 1) refuse("its step is not positive");
  const std::int64_t start = clamp_index(call.integer("start", 0), extent);
  const std::int64_t end = clamp_index(call.integer("end", extent), extent);
  const ViewStep step = slice_axis(dims, axis, start, std::max(start, end), stride);
  call.set_view("self", {&step, 1});
}

void lower_narrow(Call& call) {
  const Extents dims = call.tensor("self").dims;
  const std::size_t axis = call.axis("dim", dims.size());
  const std::int64_t given = call.integer("start");
  const std::int64_t start = given < 0 ? given + dims.at(axis) : given;
  const std::int64_t length = call.integer("length");
  if (start < 0 || length < 0 || start > dims[axis] || length > dims[axis] - start) refuse("it reaches over the end");
  const ViewStep step = slice_axis(dims, axis, start, start + length, 1);
  call.set_view("self", {&step, 1});
}

// One index of an axis, which goes away.
void set_selected(Call& call, const Extents& dims, std::size_t axis, std::int64_t index, std::size_t result) {
  Extents left = dims;
  left.erase(left.begin() + static_cast<std::ptrdiff_t>(axis));
  const ViewStep steps[] = {slice_axis(dims, axis, index, index + 1, 1), reshape_to(left)};
  call.set_view("self", steps, result);
}

void lower_select(Call& call) {
  const Extents dims = call.tensor("self").dims;
  const std::size_t axis = call.axis("dim", dims.size());
  const std::int64_t given = call.integer("index");
  const std::int64_t index = given < 0 ? given + dims.at(axis) : given;
  if (index < 0 || index >= dims.at(axis)) refuse("its index is out of range");
  set_selected(call, dims, axis, index, 0);
}

void lower_unbind(Call& call) {
  const Extents dims = call.tensor("self").dims;
  const std::size_t axis = call.axis("dim", dims.size(), 0);
  for (std::size_t result = 0; result < call.result_count(); ++result) {
    if (static_cast<std::int64_t>(result) >= dims.at(axis)) refuse("the graph records more results than it has");
    set_selected(call, dims, axis, static_cast<std::int64_t>(result), result);
  }
}

// split, chunk, tensor_split: the recorded dims say how long each part is.
void lower_split(Call& call) {
  const Extents dims = call.tensor("self").dims;
  const std::size_t axis = call.axis("dim", dims.size(), 0);
  std::int64_t start = 0;
  for (std::size_t result = 0; result < call.result_count(); ++result) {
    const std::int64_t length = call.type(result).dims.at(axis);
    if (length > dims.at(axis) - start) refuse("its parts are longer than the whole");
    const ViewStep step = slice_axis(dims, axis, start, start + length, 1);
    call.set_view("self", {&step, 1}, result);
    start += length;
  }
}

// The two axes last and seen as one, of which every (columns + 1)th element is on the diagonal.
std::vector<ViewStep> diagonal_steps(const Extents& dims, std::size_t rows_axis, std::size_t columns_axis,
                                     std::int64_t offset) {
  if (rows_axis == columns_axis) refuse("its two axes are one");
  Extents permutation;
  Extents joined;
  for (std::size_t axis = 0; axis < dims.size(); ++axis) {
    if (axis == rows_axis || axis == columns_axis) continue;
    permutation.push_back(static_cast<std::int64_t>(axis));
    joined.push_back(dims[axis]);
  }
  permutation.push_back(static_cast<std::int64_t>(rows_axis));
  permutation.push_back(static_cast<std::int64_t>(columns_axis));
  const std::int64_t rows = dims[rows_axis];
  const std::int64_t columns = dims[columns_axis];
  joined.push_back(rows * columns);
  const std::int64_t length =
      std::max<std::int64_t>(0, offset >= 0 ? std::min(rows, columns - offset) : std::min(rows + offset, columns));
  const std::int64_t start = length == 0 ? 0 : offset >= 0 ? offset : -offset * columns;
  const std::int64_t limit = length == 0 ? 0 : start + (length - 1) * (columns + 1) + 1;
  return {permute_to(permutation), reshape_to(joined),
          slice_axis(joined, joined.size() - 1, start, limit, columns + 1)};
}

void lower_diagonal(Call& call) {
  const Extents dims = call.tensor("self").dims;
  if (dims.size() < 2) refuse("a diagonal needs two dimensions");
  const std::size_t rows = call.axis("dim1", dims.size(), 0);
  const std::size_t columns = call.axis("dim2", dims.size(), 1);
  call.set_view("self", diagonal_steps(dims, rows, columns, call.integer("offset", 0)));
}

// The tensor with what a view of it shows replaced by `src`.
void put(Call& call, std::span<const ViewStep> steps) {
  Builder& b = call.builder();
  const Value self = call.tensor("self");
  const Value shown = apply_steps(b, steps, self);
  const Value source = b.broadcast_to(b.convert(call.tensor("src"), self.dtype), shown.dims);
  call.set(undo_steps(b, steps, self, source));
}

void lower_slice_scatter(Call& call) {
  const Extents dims = call.tensor("self").dims;
  const std::size_t axis = call.axis("dim", dims.size(), 0);
  const std::int64_t extent = dims.at(axis);
  const std::int64_t start = clamp_index(call.integer("start", 0), extent);
  const std::int64_t end = std::max(start, clamp_index(call.integer("end", extent), extent));
  const std::int64_t stride = call.integer("step", 1);
  if (stride < 1) refuse("its step is not positive");
  const ViewStep step = slice_axis(dims, axis, start, end, stride);
  put(call, {&step, 1});
}

void lower_select_scatter(Call& call) {
  const Extents dims = call.tensor("self").dims;
  const std::size_t axis = call.axis("dim", dims.size());
  const std::int64_t given = call.integer("index");
  const std::int64_t index = given < 0 ? given + dims.at(axis) : given;
  if (index < 0 || index >= dims.at(axis)) refuse("its index is out of range");
  Extents left = dims;
  left.erase(left.begin() + static_cast<std::ptrdiff_t>(axis));
  const ViewStep steps[] = {slice_axis(dims, axis, index, index + 1, 1), reshape_to(left)};
  put(call, steps);
}

void lower_diagonal_scatter(Call& call) {
  const Extents dims = call.tensor("self").dims;
  if (dims.size() < 2) refuse("a diagonal needs two dimensions");
  put(call, diagonal_steps(dims, call.axis("dim1", dims.size(), 0), call.axis("dim2", dims.size(), 1),
                           call.integer("offset", 0)));
}

constexpr Rule kViewsRules[] = {
    {"aten.alias.default", lower_same},
    {"aten.broadcast_to.default", lower_expand},
    {"aten.chunk.default", lower_split},
    {"aten.detach.default", lower_detach_in_place},
    {"aten.diagonal.default", lower_diagonal},
    {"aten.diagonal_scatter.default", lower_diagonal_scatter},
    {"aten.expand.default", lower_expand},
    {"aten.expand_as.default", lower_expand},
    {"aten.lift_fresh.default", lower_same},
    {"aten.mT.default", lower_matrix_transpose},
    {"aten.matrix_H.default", lower_matrix_transpose},
    {"aten.movedim.int", lower_movedim},
    {"aten.movedim.intlist", lower_movedim},
    {"aten.narrow.default", lower_narrow},
    {"aten.numpy_T.default", lower_reversed_axes},
    {"aten.permute.default", lower_permute},
    {"aten.select.int", lower_select},
    {"aten.select_scatter.default", lower_select_scatter},
    {"aten.slice.Tensor", lower_slice},
    {"aten.slice_scatter.default", lower_slice_scatter},
    {"aten.split.Tensor", lower_split},
    {"aten.split.sizes", lower_split},
    {"aten.split_with_sizes.default", lower_split},
    {"aten.squeeze.default", lower_view},
    {"aten.squeeze.dim", lower_view},
    {"aten.squeeze.dims", lower_view},
    {"aten.swapaxes.default", lower_transpose},
    {"aten.swapdims.default", lower_transpose},
    {"aten.t.default", lower_t},
    {"aten.tensor_split.indices", lower_split},
    {"aten.tensor_split.sections", lower_split},
    {"aten.transpose.int", lower_transpose},
    {"aten.unbind.int", lower_unbind},
    {"aten.unflatten.int", lower_view},
    {"aten.unsafe_chunk.default", lower_split},
    {"aten.unsafe_split.Tensor", lower_split},
    {"aten.unsqueeze.default", lower_view},
    {"aten.view.default", lower_view},
    {"aten.view_as.default", lower_view},
};

}  // namespace

std::span<const Rule> view_rules() { return kViewsRules; }

}  // namespace kpt::xla
