// Rows of a batch: how many come next, and how tensors are cut, padded and joined along them, or along other axes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kpt/status.h"
#include "kpt/tensor.h"

namespace kpt {

// How many of `left` rows come next when parts of `wanted` rows are meant to fit: never less than `least`, and never so
// that fewer than `least` are left over. May be more than `wanted` where that cannot be.
std::int64_t next_rows(std::int64_t left, std::int64_t wanted, std::int64_t least);

// `count` rows from `begin` on, sharing the memory. They must be there.
Tensor take_rows(const Tensor& tensor, std::int64_t begin, std::int64_t count);

// With copies of the last row behind it up to `rows`, contiguous in fresh memory: what a model takes it takes again,
// and nothing but its own rows comes of it. The tensor is on the host and has at least one row and at most `rows`.
// Fails with kOutOfMemory.
Result<Tensor> pad_rows(const Tensor& tensor, std::int64_t rows);

// What stands behind the end.
enum class Padding : std::uint8_t {
  kLast,  // copies of the last position
  kZero,
};

// The same along any axis: up to `extent` positions.
Result<Tensor> pad_axis(const Tensor& tensor, std::size_t axis, std::int64_t extent, Padding padding);

// The first `extent` positions along an axis, contiguous. The tensor is on the host. Fails with kOutOfMemory.
Result<Tensor> cut_axis(const Tensor& tensor, std::size_t axis, std::int64_t extent);

// All rows of the parts, in order, in fresh memory. The parts are contiguous, on the host, of one type, and differ in
// their first extent only. Fails with kInvalidArgument otherwise, and with kOutOfMemory.
Result<Tensor> join_rows(std::span<const Tensor> parts);

}  // namespace kpt
