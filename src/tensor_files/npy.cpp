#include "tensor_files/npy.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/files.h"
#include "tensor_files/npy_header.h"
#include "tensor_files/tensor_bytes.h"

namespace kpt {
namespace {

Dims reversed(const Dims& dims) {
  Dims result = dims;
  for (std::size_t i = 0; i < dims.size(); ++i) result[i] = dims[dims.size() - 1 - i];
  return result;
}

// Column-major strides are the row-major ones of the reversed extents, reversed.
Dims fortran_strides(const Dims& dims) { return reversed(contiguous_strides(reversed(dims))); }

}  // namespace

Result<Tensor> read_npy(const std::shared_ptr<const MappedFile>& file) {
  return parse_npy(file->bytes(), file->path().string(), file);
}

Result<Tensor> parse_npy(std::span<const std::byte> bytes, std::string_view name,
                         const std::shared_ptr<const MappedFile>& file) {
  KPT_ASSIGN_OR_RETURN(const NpyHeader header, parse_npy_header(bytes, name));
  const std::span<const std::byte> elements = bytes.subspan(header.bytes);
  const std::optional<std::size_t> needed = count_bytes(header.dtype, header.dims);
  if (!needed || *needed != elements.size()) {
    return Status(StatusCode::kCorruptData,
                  fmt::format("{} has {} bytes of elements, which do not make {}{}", name, elements.size(),
                              to_string(header.dtype), header.dims.to_string()));
  }
  if (!header.fortran_order || header.dims.size() < 2) return tensor_from(file, elements, header.dtype, header.dims);
  KPT_ASSIGN_OR_RETURN(std::shared_ptr<Buffer> buffer, share_or_copy(file, elements, element_alignment(header.dtype)));
  KPT_ASSIGN_OR_RETURN(const Tensor columns, Tensor::from_buffer(std::move(buffer), header.dtype, header.dims,
                                                                 fortran_strides(header.dims), 0));
  return columns.contiguous_copy();
}

std::span<const std::byte> NpyContent::elements() const {
  return {static_cast<const std::byte*>(tensor.data()), tensor.bytes()};
}

Result<NpyContent> make_npy(const Tensor& tensor, std::string_view name) {
  const bool fortran_order =
      tensor.defined() && !tensor.is_contiguous() && tensor.strides() == fortran_strides(tensor.dims());
  NpyContent content;
  KPT_ASSIGN_OR_RETURN(content.header, make_npy_header(tensor.dtype(), tensor.dims(), fortran_order));
  if (fortran_order && tensor.device() == "cpu") {
    content.tensor = tensor;
  } else {
    KPT_ASSIGN_OR_RETURN(content.tensor, make_contiguous(tensor, name));
  }
  return content;
}

Status write_npy(const std::filesystem::path& path, const Tensor& tensor) {
  KPT_ASSIGN_OR_RETURN(const NpyContent content, make_npy(tensor, path.stem().string()));
  KPT_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(path));
  KPT_RETURN_IF_ERROR(file.write(content.header));
  const std::span<const std::byte> elements = content.elements();
  KPT_RETURN_IF_ERROR(file.write({reinterpret_cast<const char*>(elements.data()), elements.size()}));
  return file.commit();
}

}  // namespace kpt
