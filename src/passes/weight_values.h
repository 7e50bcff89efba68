// Weights as numbers: how passes compute new weights from old ones, in double.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kpt/status.h"
#include "kpt/tensor.h"

namespace kpt {

// All elements in row-major order. Floating types, integers and bools; fails with kUnsupported for others.
Result<std::vector<double>> read_as_double(const Tensor& tensor);

// The contiguous tensor of a floating type (float64, float32, float16, bfloat16), each number rounded to nearest, ties
// to even. `values` must be as many as the extents say. Fails with kUnsupported for other types.
Result<Tensor> make_weight(DType dtype, std::span<const std::int64_t> dims, std::span<const double> values);

// float32 → bfloat16, rounded to nearest even; NaN stays NaN.
Result<Tensor> round_to_bfloat16(const Tensor& tensor);

// The code of the float8_e4m3fn nearest to a finite number, ties to even; beyond 448 the greatest.
std::uint8_t to_float8_e4m3fn(double value);

// Rows of one matrix below those of another (axis 0), of one type. Copies bytes: nothing is rounded.
Result<Tensor> concatenate_rows(std::span<const Tensor> tensors);
// The transpose of a matrix, contiguous. Copies bytes.
Result<Tensor> transpose_matrix(const Tensor& tensor);

}  // namespace kpt
