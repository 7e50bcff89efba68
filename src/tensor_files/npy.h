// NumPy's .npy files: one array each. Versions 1 to 3, little endian, both orders; npy_header.h says what is refused.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "archive/mapped_file.h"
#include "kpt/status.h"
#include "kpt/tensor.h"

namespace kpt {

// The array as a contiguous tensor. In row-major order and aligned it points into the mapping and is read only;
// otherwise it is a copy. Fails with kCorruptData when the file has more or fewer bytes than its header says.
Result<Tensor> read_npy(const std::shared_ptr<const MappedFile>& file);
// The same for bytes that are a part of `file`, or, when `file` is null, of memory (then always a copy). `name` is for
// messages.
Result<Tensor> parse_npy(std::span<const std::byte> bytes, std::string_view name,
                         const std::shared_ptr<const MappedFile>& file = nullptr);

// A file that appears whole or not at all. A tensor that is contiguous in column-major order is written in that order.
// Fails with kUnsupported for bfloat16, float8 and complex32, which NumPy lacks.
Status write_npy(const std::filesystem::path& path, const Tensor& tensor);

// What write_npy() writes, as a header and the tensor whose memory follows it.
struct NpyContent {
  std::string header;
  Tensor tensor;
  std::span<const std::byte> elements() const;
};
Result<NpyContent> make_npy(const Tensor& tensor, std::string_view name);

}  // namespace kpt
