// Tensors of a file, whatever its format: .npy (one tensor), .npz and .safetensors, told apart by the extension.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "kpt/status.h"
#include "kpt/tensor.h"

namespace kpt {

// The tensors in the file's order; that of a .npy file has the file's stem as its name. They may point into the mapped
// file and are then read only. Fails as the readers of the formats do, and with kUnsupported for other extensions.
Result<std::vector<NamedTensor>> read_tensors(const std::filesystem::path& path);

// Fails with kUnsupported for extensions that read_tensors() and write_tensors() do not know.
Status check_tensor_file_name(const std::filesystem::path& path);

// Replaces the file as a whole. Fails as the writers of the formats do, with kUnsupported for other extensions, and
// with kInvalidArgument when there is not exactly one tensor for a .npy file.
Status write_tensors(const std::filesystem::path& path, std::span<const NamedTensor> tensors);

}  // namespace kpt
