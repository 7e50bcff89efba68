#include "tensor_files/tensor_file.h"

#include <utility>

#include <fmt/format.h>

#include "archive/mapped_file.h"
#include "base/text.h"
#include "tensor_files/npy.h"
#include "tensor_files/npz.h"
#include "tensor_files/safetensors.h"

namespace kpt {

Status check_tensor_file_name(const std::filesystem::path& path) {
  const std::string extension = to_lower(path.extension().string());
  if (extension == ".npy" || extension == ".npz" || extension == ".safetensors") return {};
  return {StatusCode::kUnsupported,
          fmt::format("{} is not a known kind of tensor file; use .npy, .npz or .safetensors", path.string())};
}

Result<std::vector<NamedTensor>> read_tensors(const std::filesystem::path& path) {
  KPT_RETURN_IF_ERROR(check_tensor_file_name(path));
  const std::string extension = to_lower(path.extension().string());
  KPT_ASSIGN_OR_RETURN(const std::shared_ptr<const MappedFile> file, MappedFile::open(path));
  if (extension == ".safetensors") return read_safetensors(file);
  if (extension == ".npz") return read_npz(file);
  KPT_ASSIGN_OR_RETURN(Tensor tensor, read_npy(file));
  std::vector<NamedTensor> tensors;
  tensors.push_back({path.stem().string(), std::move(tensor)});
  return tensors;
}

Status write_tensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors) {
  KPT_RETURN_IF_ERROR(check_tensor_file_name(path));
  const std::string extension = to_lower(path.extension().string());
  if (extension == ".safetensors") return write_safetensors(path, tensors);
  if (extension == ".npz") return write_npz(path, tensors);
  if (tensors.size() != 1) {
    return {StatusCode::kInvalidArgument,
            fmt::format("{} can hold one tensor, not {}; use .npz or .safetensors", path.string(), tensors.size())};
  }
  return write_npy(path, tensors[0].tensor);
}

}  // namespace kpt
