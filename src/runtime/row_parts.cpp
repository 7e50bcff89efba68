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

Result<Tensor> pad_rows(const Tensor& tensor, std::int64_t rows) {
  const std::int64_t own = tensor.dims()[0];
  Dims dims = tensor.dims();
  dims[0] = rows;
  KPT_ASSIGN_OR_RETURN(const Tensor dense, tensor.contiguous_copy());
  KPT_ASSIGN_OR_RETURN(Tensor padded, Tensor::empty(tensor.dtype(), dims));
  const std::size_t row_bytes = dense.bytes() / static_cast<std::size_t>(own);
  if (row_bytes == 0) return padded;
  auto* place = static_cast<std::byte*>(padded.data());
  std::memcpy(place, dense.data(), dense.bytes());
  const std::byte* last = place + dense.bytes() - row_bytes;
  for (std::int64_t row = own; row < rows; ++row) {
    std::memcpy(place + static_cast<std::size_t>(row) * row_bytes, last, row_bytes);
  }
  return padded;
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
