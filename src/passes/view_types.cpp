#include "passes/view_types.h"

#include <algorithm>
#include <set>

#include "ir/text_names.h"
#include "passes/node_arguments.h"

namespace kpt {
namespace {

ir::Expr times(const ir::Expr& a, const ir::Expr& b) { return ir::Expr::make(ir::ExprOp::kMul, {a, b}); }

// [.., N] seen as [.., a, b, …] with the same leading extents: only the last axis is split, which needs no copy when
// its stride is 1.
bool splits_last_axis(const ir::TensorType& from, const ir::TensorType& to) {
  if (from.dims.empty() || to.dims.size() < from.dims.size()) return false;
  return std::equal(from.dims.begin(), from.dims.end() - 1, to.dims.begin());
}

void split_last_axis(const ir::TensorType& from, ir::TensorType& to) {
  const std::size_t leading = from.dims.size() - 1;
  to.strides.assign(from.strides.begin(), from.strides.end() - 1);
  std::vector<ir::Expr> inner;
  ir::Expr stride = from.strides.back();
  for (std::size_t axis = to.dims.size(); axis-- > leading;) {
    inner.insert(inner.begin(), stride);
    stride = times(stride, to.dims[axis]);
  }
  to.strides.insert(to.strides.end(), inner.begin(), inner.end());
  to.storage_offset = from.storage_offset;
}

// A view that asks for sizes may not fit the layout any more: a reshape copies then. False when it is none.
bool make_reshape(GraphEdit& edit, NodeIndex view) {
  const ir::Node node = edit.node(view);
  if (!is_any(node, {"aten.view.default", "aten._unsafe_view.default"})) return false;
  if (find_argument(node, "self") == nullptr || find_argument(node, "size") == nullptr) return false;
  edit.replace_call(view, "aten.reshape.default",
                    {{"self", *find_argument(node, "self")}, {"shape", *find_argument(node, "size")}});
  return true;
}

// Whether the user is a view whose type follows; sets it.
bool follow(GraphEdit& edit, NodeIndex user, const ir::TensorType& from) {
  const ir::Node node = edit.node(user);
  const ir::ValueId result = only_result(node);
  if (!edit.is_tensor(result)) return false;
  ir::TensorType to = edit.type(result);
  if (is_any(node, {"aten.view.default", "aten._unsafe_view.default", "aten.reshape.default"})) {
    if (splits_last_axis(from, to)) {
      split_last_axis(from, to);
    } else {
      to.strides = ir::row_major_strides(to.dims);
      to.storage_offset = 0;
    }
    if (node.target != "aten.reshape.default" && !make_reshape(edit, user)) return false;
  } else if (node.target == "aten.transpose.int") {
    const auto first = axis_of(int_argument(node, "dim0").value_or(0), to.dims.size());
    const auto second = axis_of(int_argument(node, "dim1").value_or(0), to.dims.size());
    if (!first || !second || from.strides.size() != to.dims.size()) return false;
    to.strides = from.strides;
    std::swap(to.strides[*first], to.strides[*second]);
    to.storage_offset = from.storage_offset;
  } else if (node.target == "aten.permute.default") {
    const auto dims = ints_argument(node, "dims");
    if (!dims || dims->size() != from.strides.size() || to.strides.size() != from.strides.size()) return false;
    for (std::size_t axis = 0; axis < dims->size(); ++axis) {
      to.strides[axis] = from.strides[axis_of((*dims)[axis], dims->size()).value_or(0)];
    }
    to.storage_offset = from.storage_offset;
  } else if (node.target == "aten.squeeze.dim") {
    const auto axis = axis_of(int_argument(node, "dim").value_or(99), from.dims.size());
    if (!axis || from.dims[*axis] != ir::Expr(1) || to.dims.size() + 1 != from.dims.size()) return false;
    to.strides = from.strides;
    to.strides.erase(to.strides.begin() + static_cast<std::ptrdiff_t>(*axis));
    to.storage_offset = from.storage_offset;
  } else if (node.target == "aten.slice.Tensor" && int_argument(node, "step", 1) == 1) {
    const auto axis = axis_of(int_argument(node, "dim", 0).value_or(0), to.dims.size());
    const auto start = int_argument(node, "start", 0);
    if (!axis || !start || *start < 0 || from.strides.size() != to.dims.size()) return false;
    to.strides = from.strides;
    to.storage_offset =
        ir::Expr::make(ir::ExprOp::kAdd, {from.storage_offset, times(from.strides[*axis], ir::Expr(*start))});
  } else {
    return false;
  }
  edit.set_type(result, std::move(to));
  return true;
}

// Whatever the layout of its arguments is.
bool gives_rows(const ir::Node& node) {
  return node.target.starts_with("kpt.") ||
         is_any(node, {"aten.contiguous.default", "aten.linear.default", "aten.addmm.default", "aten.mm.default",
                       "aten.bmm.default", "aten.matmul.default", "aten.embedding.default", "aten.layer_norm.default",
                       "aten.softmax.int", "aten._softmax.default"});
}

// The layouts of what a user that is no followed view gives are not known; views of it are made to fit any.
void loosen_views(GraphEdit& edit, NodeIndex first) {
  std::vector<NodeIndex> waiting = {first};
  std::set<NodeIndex> seen = {first};
  while (!waiting.empty()) {
    const NodeIndex index = waiting.back();
    waiting.pop_back();
    // Who writes a view must not get a copy.
    if (!edit.facts().is_written(value_argument(edit.node(index), "self"))) make_reshape(edit, index);
    const ir::Node& node = edit.node(index);
    if (gives_rows(node) || may_write(node)) continue;
    for (const ir::Output& output : node.outputs) {
      for (const ir::ValueId id : output.values) {
        if (!edit.is_tensor(id)) continue;
        for (const NodeIndex user : edit.users(id)) {
          if (seen.insert(user).second) waiting.push_back(user);
        }
      }
    }
  }
}

}  // namespace

std::vector<ir::Expr> channels_last_strides(const std::vector<ir::Expr>& dims) {
  if (dims.size() != 4) return ir::row_major_strides(dims);
  const ir::Expr row = times(dims[3], dims[1]);
  return {times(row, dims[2]), ir::Expr(1), row, dims[1]};
}

void refresh_views(GraphEdit& edit, ir::ValueId id) {
  const std::vector<NodeIndex> users = edit.users(id);
  for (const NodeIndex user : users) {
    const ir::TensorType from = edit.type(id);
    if (follow(edit, user, from)) {
      refresh_views(edit, only_result(edit.node(user)));
    } else {
      loosen_views(edit, user);
    }
  }
}

void make_row_major(GraphEdit& edit, ir::ValueId id) {
  const ir::TensorType type = edit.type(id);
  edit.set_type(id, contiguous_type(type.dtype, type.dims));
  if (!is_contiguous(type) && !edit.facts().is_written(id)) refresh_views(edit, id);
}

}  // namespace kpt
