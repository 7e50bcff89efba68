// A tensor in planned memory: which block holds it, and how its elements lie there. What PyTorch calls views are pure
// arithmetic on these.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kpt/dtype.h"
#include "kpt/tensor.h"

namespace kpt::native {

struct View {
  std::uint32_t block = 0;  // index in GraphPlan::blocks
  DType dtype = DType::kFloat32;
  Dims dims;
  Dims strides;             // in elements
  std::int64_t offset = 0;  // of the first element in the block, in elements
};

View contiguous_view(std::uint32_t block, DType dtype, const Dims& dims);
bool is_contiguous(const View& view);
std::int64_t count_elements(const View& view);

// The same elements with other extents. Nothing when that takes a copy, or the number of elements differs.
std::optional<View> reshaped(const View& view, const Dims& dims);
// Axis `i` of the result is axis `order[i]`.
View permuted(const View& view, std::span<const std::size_t> order);
View transposed(const View& view, std::size_t first, std::size_t second);
// `extent` elements of the axis from `start` on, `step` apart.
View sliced(const View& view, std::size_t axis, std::int64_t start, std::int64_t extent, std::int64_t step);
View without_axis(const View& view, std::size_t axis);
View with_axis(const View& view, std::size_t axis);
// PyTorch's broadcasting: axes are added in front, axes of one element are repeated. Nothing when it does not fit.
std::optional<View> expanded(const View& view, const Dims& dims);

// The last `inner` axes as one without gaps, all before it as one with a stride.
struct Rows {
  std::int64_t rows = 0, width = 0;
  std::int64_t stride = 0;  // elements between rows
};
// Nothing when the elements do not lie so.
std::optional<Rows> as_rows(const View& view, std::size_t inner = 1);

}  // namespace kpt::native
