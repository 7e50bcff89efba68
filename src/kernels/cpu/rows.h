// Tensors seen as rows: the last axis is a row, the others count rows. Rows are read as float32 whatever their type.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kpt/dtype.h"
#include "kpt/tensor.h"

namespace kpt::kernels {

// The types that kernels read and write: float32, bfloat16, float16.
bool is_row_type(DType dtype);

// A strided tensor of rank 1 or more. It owns nothing.
struct Rows {
  const void* data = nullptr;
  DType dtype = DType::kFloat32;
  std::size_t rank = 0;
  std::array<std::int64_t, kMaxRank> sizes{};
  std::array<std::int64_t, kMaxRank> strides{};  // in elements

  std::int64_t width() const { return sizes[rank - 1]; }
  std::int64_t step() const { return strides[rank - 1]; }  // between elements of a row
  std::int64_t count() const;
  // The address of the first element of row `index`, counted with the last axis but one fastest.
  const void* row(std::int64_t index) const;
  // Whether rows of float32 can be used where they lie.
  bool is_plain() const { return dtype == DType::kFloat32 && step() == 1; }
};

// `count` elements, `step` elements apart, as float32.
void load_row(const void* source, DType dtype, std::int64_t step, std::int64_t count, float* target);
// Rounds to nearest, ties to even.
void store_row(const float* source, std::int64_t count, DType dtype, void* target);

// The row as float32: where it lies if it can be used there, else copied to `buffer`.
inline const float* float_row(const Rows& rows, std::int64_t index, float* buffer) {
  const void* row = rows.row(index);
  if (rows.is_plain()) return static_cast<const float*>(row);
  load_row(row, rows.dtype, rows.step(), rows.width(), buffer);
  return buffer;
}

}  // namespace kpt::kernels
