#include "tensor_files/tensor_bytes.h"

#include <cstdint>
#include <optional>

#include <fmt/format.h>

#include "base/text.h"

namespace kpt {

std::size_t element_alignment(DType dtype) {
  return is_complex(dtype) ? element_bytes(dtype) / 2 : element_bytes(dtype);
}

std::optional<std::size_t> count_bytes(DType dtype, std::span<const std::int64_t> dims) {
  const auto count = count_elements(dims);
  std::size_t bytes = 0;
  if (!count || __builtin_mul_overflow(static_cast<std::size_t>(*count), element_bytes(dtype), &bytes)) {
    return std::nullopt;
  }
  return bytes;
}

Result<std::shared_ptr<Buffer>> share_or_copy(const std::shared_ptr<const MappedFile>& file,
                                              std::span<const std::byte> bytes, std::size_t alignment) {
  if (file != nullptr && reinterpret_cast<std::uintptr_t>(bytes.data()) % alignment == 0) {
    return make_buffer(file, bytes);
  }
  const auto count = static_cast<std::int64_t>(bytes.size());
  KPT_ASSIGN_OR_RETURN(const Tensor copy, Tensor::from_bytes(DType::kUInt8, {{count}}, bytes));
  return copy.buffer();
}

Result<Tensor> tensor_from(const std::shared_ptr<const MappedFile>& file, std::span<const std::byte> bytes, DType dtype,
                           std::span<const std::int64_t> dims) {
  if (dims.size() > kMaxRank) {
    return Status(StatusCode::kUnsupported,
                  fmt::format("a tensor of rank {} is not supported; the limit is {}", dims.size(), kMaxRank));
  }
  KPT_ASSIGN_OR_RETURN(std::shared_ptr<Buffer> buffer, share_or_copy(file, bytes, element_alignment(dtype)));
  return Tensor::from_buffer(std::move(buffer), dtype, dims, contiguous_strides(dims), 0);
}

Result<Tensor> make_contiguous(const Tensor& tensor, std::string_view name) {
  if (!tensor.defined() || tensor.device() != "cpu" || (tensor.data() == nullptr && tensor.element_count() > 0)) {
    return Status(
        StatusCode::kInvalidArgument,
        fmt::format("the tensor \"{}\" cannot be written because it has no memory on the CPU", printable(name, 200)));
  }
  if (tensor.is_contiguous()) return tensor;
  return tensor.contiguous_copy();
}

std::span<const std::byte> bytes_of(const Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.data()), tensor.bytes()};
}

}  // namespace kpt
