// Between the bytes of a file and tensors: in place where alignment allows it, copied otherwise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "archive/mapped_file.h"
#include "kpt/status.h"
#include "kpt/tensor.h"

namespace kpt {

// What a machine wants an element's address to be a multiple of; complex numbers are pairs.
std::size_t element_alignment(DType dtype);

// dims × element size; nothing when an extent is negative or the product overflows.
std::optional<std::size_t> count_bytes(DType dtype, std::span<const std::int64_t> dims);

// A buffer of `bytes`: a part of `file` where they lie if `file` is given and they start at a multiple of `alignment`,
// otherwise a copy in fresh memory aligned to 64.
Result<std::shared_ptr<Buffer>> share_or_copy(const std::shared_ptr<const MappedFile>& file,
                                              std::span<const std::byte> bytes, std::size_t alignment);

// The contiguous tensor whose bytes these are (as many as it has), by share_or_copy(). Fails with kUnsupported when the
// rank is above kMaxRank.
Result<Tensor> tensor_from(const std::shared_ptr<const MappedFile>& file, std::span<const std::byte> bytes, DType dtype,
                           std::span<const std::int64_t> dims);

// `tensor` itself if it is contiguous on the CPU, otherwise a contiguous copy; `name` is for messages. Fails with
// kInvalidArgument for a tensor without memory that the CPU can read.
Result<Tensor> make_contiguous(const Tensor& tensor, std::string_view name);

// The elements of a contiguous tensor of the CPU.
std::span<const std::byte> bytes_of(const Tensor& tensor);

}  // namespace kpt
