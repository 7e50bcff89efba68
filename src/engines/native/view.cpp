#include "engines/native/view.h"

#include <algorithm>

namespace kpt::native {
namespace {

Dims dims_of(const std::vector<std::int64_t>& values) { return Dims(std::span<const std::int64_t>(values)); }

std::vector<std::int64_t> values_of(const Dims& dims) { return {dims.begin(), dims.end()}; }

// Axes that lie behind one another joined, those of one element left out.
void join(const View& view, std::vector<std::int64_t>& extents, std::vector<std::int64_t>& strides) {
  for (std::size_t axis = 0; axis < view.dims.size(); ++axis) {
    if (view.dims[axis] == 1) continue;
    if (!extents.empty() && strides.back() == view.strides[axis] * view.dims[axis]) {
      extents.back() *= view.dims[axis];
      strides.back() = view.strides[axis];
    } else {
      extents.push_back(view.dims[axis]);
      strides.push_back(view.strides[axis]);
    }
  }
}

}  // namespace

View contiguous_view(std::uint32_t block, DType dtype, const Dims& dims) {
  return {block, dtype, dims, contiguous_strides(dims), 0};
}

std::int64_t count_elements(const View& view) { return kpt::count_elements(view.dims).value_or(0); }

bool is_contiguous(const View& view) {
  std::int64_t expected = 1;
  for (std::size_t axis = view.dims.size(); axis-- > 0;) {
    if (view.dims[axis] == 1) continue;
    if (view.strides[axis] != expected) return false;
    expected *= view.dims[axis];
  }
  return true;
}

std::optional<View> reshaped(const View& view, const Dims& dims) {
  const std::int64_t count = count_elements(view);
  if (kpt::count_elements(dims) != count) return std::nullopt;
  View result = view;
  result.dims = dims;
  result.strides = contiguous_strides(dims);
  if (count <= 1) return result;
  std::vector<std::int64_t> extents;
  std::vector<std::int64_t> strides;
  join(view, extents, strides);
  // From the last axis on, each piece of memory must be filled by whole axes of the result.
  std::size_t piece = extents.size();
  std::int64_t left = 1;    // elements of the current piece that are not taken yet
  std::int64_t stride = 0;  // between them
  for (std::size_t axis = dims.size(); axis-- > 0;) {
    if (dims[axis] == 1) continue;
    if (left == 1) {
      --piece;
      left = extents[piece];
      stride = strides[piece];
    }
    if (left % dims[axis] != 0) return std::nullopt;
    result.strides[axis] = stride;
    stride *= dims[axis];
    left /= dims[axis];
  }
  return result;
}

View permuted(const View& view, std::span<const std::size_t> order) {
  View result = view;
  for (std::size_t axis = 0; axis < order.size(); ++axis) {
    result.dims[axis] = view.dims[order[axis]];
    result.strides[axis] = view.strides[order[axis]];
  }
  return result;
}

View transposed(const View& view, std::size_t first, std::size_t second) {
  View result = view;
  std::swap(result.dims[first], result.dims[second]);
  std::swap(result.strides[first], result.strides[second]);
  return result;
}

View sliced(const View& view, std::size_t axis, std::int64_t start, std::int64_t extent, std::int64_t step) {
  View result = view;
  result.offset += start * view.strides[axis];
  result.dims[axis] = extent;
  result.strides[axis] *= step;
  return result;
}

View without_axis(const View& view, std::size_t axis) {
  std::vector<std::int64_t> dims = values_of(view.dims);
  std::vector<std::int64_t> strides = values_of(view.strides);
  dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(axis));
  strides.erase(strides.begin() + static_cast<std::ptrdiff_t>(axis));
  View result = view;
  result.dims = dims_of(dims);
  result.strides = dims_of(strides);
  return result;
}

View with_axis(const View& view, std::size_t axis) {
  std::vector<std::int64_t> dims = values_of(view.dims);
  std::vector<std::int64_t> strides = values_of(view.strides);
  const std::int64_t stride = axis < dims.size() ? dims[axis] * strides[axis] : 1;
  dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(axis), 1);
  strides.insert(strides.begin() + static_cast<std::ptrdiff_t>(axis), stride);
  View result = view;
  result.dims = dims_of(dims);
  result.strides = dims_of(strides);
  return result;
}

std::optional<View> expanded(const View& view, const Dims& dims) {
  if (dims.size() < view.dims.size()) return std::nullopt;
  const std::size_t added = dims.size() - view.dims.size();
  View result = view;
  result.dims = dims;
  result.strides = dims;
  for (std::size_t axis = 0; axis < dims.size(); ++axis) {
    const std::int64_t extent = axis < added ? 1 : view.dims[axis - added];
    if (extent != 1 && extent != dims[axis]) return std::nullopt;
    const bool repeated = axis < added || (extent == 1 && dims[axis] != 1);
    result.strides[axis] = repeated ? 0 : view.strides[axis - added];
  }
  return result;
}

std::optional<Rows> as_rows(const View& view, std::size_t inner) {
  if (view.dims.size() < inner) return std::nullopt;
  const std::size_t outer = view.dims.size() - inner;
  Rows rows;
  if (count_elements(view) == 0) {  // strides of nothing say nothing
    rows.rows = rows.width = 1;
    for (std::size_t axis = 0; axis < view.dims.size(); ++axis)
      (axis < outer ? rows.rows : rows.width) *= view.dims[axis];
    rows.stride = rows.width;
    return rows;
  }
  rows.width = 1;
  for (std::size_t axis = view.dims.size(); axis-- > outer;) {
    if (view.dims[axis] != 1 && view.strides[axis] != rows.width) return std::nullopt;
    rows.width *= view.dims[axis];
  }
  rows.rows = 1;
  rows.stride = rows.width;
  for (std::size_t axis = outer; axis-- > 0;) {
    if (view.dims[axis] == 1) continue;
    if (rows.rows == 1) {
      rows.stride = view.strides[axis];
    } else if (view.strides[axis] != rows.stride * rows.rows) {
      return std::nullopt;
    }
    rows.rows *= view.dims[axis];
  }
  return rows;
}

}  // namespace kpt::native
