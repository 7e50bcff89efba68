#include "runtime/row_parts.h"

#include <algorithm>
#include <cstring>

namespace kpt {

std::int64_t next_rows(std::int64_t left, std::int64_t wanted, std::int64_t least) {
  wanted = std::max(wanted, least);
  if (left <= wanted) return left;
  if (left - wanted >= least) return wanted;
  return left - least >= least ? left - least : left;
}

Tensor take_rows(const Tensor& tensor, std::int64_t begin, std::int64_t count) {
  Dims dims = tensor.dims();
  dims[0] = count;
  return Tensor::unchecked(tensor.buffer(), tensor.dtype(), dims, tensor.strides(),
                           tensor.offset() + begin * tensor.strides()[0]);
}

Result<Tensor> pad_rows(const Tensor& tensor, std::int64_t rows) { return pad_axis(tensor, 0, rows, Padding::kLast); }

Result<Tensor> pad_axis(const Tensor& tensor, std::size_t axis, std::int64_t extent, Padding padding) {
  Dims dims = tensor.dims();
  const auto own = static_cast<std::size_t>(dims[axis]);
  std::size_t blocks = 1;
  for (std::size_t before = 0; before < axis; ++before) blocks *= static_cast<std::size_t>(dims[before]);
  dims[axis] = extent;
  KPT_ASSIGN_OR_RETURN(const Tensor dense, tensor.contiguous_copy());
  KPT_ASSIGN_OR_RETURN(Tensor padded, Tensor::empty(tensor.dtype(), dims));
  if (dense.bytes() == 0) return padded;
  const std::size_t step = dense.bytes() / (blocks * own);  // bytes of a position
  const auto* from = static_cast<const std::byte*>(dense.data());
  auto* place = static_cast<std::byte*>(padded.data());
  for (std::size_t block = 0; block < blocks; ++block) {
    std::memcpy(place, from, own * step);
    from += own * step;
    place += own * step;
    for (std::size_t position = own; position < static_cast<std::size_t>(extent); ++position) {
      if (padding == Padding::kZero) std::memset(place, 0, step);
      if (padding == Padding::kLast) std::memcpy(place, from - step, step);
      place += step;
    }
  }
  return padded;
}

Result<Tensor> cut_axis(const Tensor& tensor, std::size_t axis, std::int64_t extent) {
  Dims dims = tensor.dims();
  dims[axis] = extent;
  return Tensor::unchecked(tensor.buffer(), tensor.dtype(), dims, tensor.strides(), tensor.offset()).contiguous_copy();
}

Result<Tensor> join_rows(std::span<const Tensor> parts) {
  const auto fails = [] { return Status(StatusCode::kInvalidArgument, "parts of a batch do not fit together"); };
  if (parts.empty() || parts[0].dims().empty()) return fails();
  Dims dims = parts[0].dims();
  dims[0] = 0;
  for (const Tensor& part : parts) {
    if (part.dims().size() != dims.size() || part.dtype() != parts[0].dtype() || !part.is_contiguous() ||
        part.device() != "cpu" || !std::equal(dims.begin() + 1, dims.end(), part.dims().begin() + 1)) {
      return fails();
    }
    dims[0] += part.dims()[0];
  }
  KPT_ASSIGN_OR_RETURN(Tensor joined, Tensor::empty(parts[0].dtype(), dims));
  auto* place = static_cast<std::byte*>(joined.data());
  for (const Tensor& part : parts) {
    if (part.bytes() > 0) std::memcpy(place, part.data(), part.bytes());
    place += part.bytes();
  }
  return joined;
}

}  // namespace kpt
