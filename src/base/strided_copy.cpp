#include "base/strided_copy.h"

#include <array>
#include <cstring>

#include "kpt/tensor.h"

namespace kpt {
namespace {

// One row: `count` elements of `width` bytes, `step` bytes apart. A constant width makes each memcpy one load and
// store.
template <std::size_t kWidth>
void copy_row(std::byte* target, const std::byte* source, std::int64_t count, std::int64_t step) {
  for (std::int64_t i = 0; i < count; ++i) std::memcpy(target + i * std::int64_t{kWidth}, source + i * step, kWidth);
}

using RowCopy = void (*)(std::byte*, const std::byte*, std::int64_t, std::int64_t);

RowCopy choose_row_copy(std::size_t element_bytes) {
  switch (element_bytes) {
    case 1: return copy_row<1>;
    case 2: return copy_row<2>;
    case 4: return copy_row<4>;
    case 8: return copy_row<8>;
    default: return copy_row<16>;
  }
}

// Extents and strides with neighbours merged where one walk covers both, and extents of one left out.
struct MergedDims {
  std::array<std::int64_t, kMaxRank> dims{};
  std::array<std::int64_t, kMaxRank> strides{};
  std::size_t rank = 0;
};

MergedDims merge_dims(std::span<const std::int64_t> dims, std::span<const std::int64_t> strides) {
  MergedDims merged;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 1) continue;
    const std::size_t last = merged.rank - 1;
    if (merged.rank > 0 && merged.strides[last] == strides[i] * dims[i]) {
      merged.dims[last] *= dims[i];
      merged.strides[last] = strides[i];
    } else {
      merged.dims[merged.rank] = dims[i];
      merged.strides[merged.rank] = strides[i];
      ++merged.rank;
    }
  }
  return merged;
}

}  // namespace

void copy_strided(std::byte* target, const std::byte* source, std::span<const std::int64_t> dims,
                  std::span<const std::int64_t> strides, std::size_t element_bytes) {
  for (const std::int64_t extent : dims) {
    if (extent == 0) return;
  }
  MergedDims walk = merge_dims(dims, strides);
  if (walk.rank == 0) {
    std::memcpy(target, source, element_bytes);
    return;
  }
  const auto width = static_cast<std::int64_t>(element_bytes);
  const std::size_t inner = walk.rank - 1;
  const std::int64_t row = walk.dims[inner];
  const std::int64_t step = walk.strides[inner] * width;
  const RowCopy copy = choose_row_copy(element_bytes);

  std::array<std::int64_t, kMaxRank> index{};
  while (true) {
    if (step == width) {
      std::memcpy(target, source, static_cast<std::size_t>(row * width));
    } else {
      copy(target, source, row, step);
    }
    target += row * width;
    std::size_t axis = inner;
    while (axis > 0) {
      --axis;
      source += walk.strides[axis] * width;
      if (++index[axis] < walk.dims[axis]) break;
      source -= walk.strides[axis] * width * walk.dims[axis];
      index[axis] = 0;
      if (axis == 0) return;
    }
    if (inner == 0) return;
  }
}

}  // namespace kpt
