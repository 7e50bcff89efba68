// NumPy's .npz files: a zip archive of .npy files.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "archive/mapped_file.h"
#include "kpt/status.h"
#include "kpt/tensor.h"

namespace kpt {

// The arrays in the order of the archive, named without ".npy". Stored and aligned arrays in row-major order point into
// the mapping and are read only; all others are copies. Checksums are compared. Fails as ZipArchive and parse_npy() do,
// with kUnsupported for entries that are no .npy files and when deflated entries together would have more than
// `max_inflated_bytes`.
Result<std::vector<NamedTensor>> read_npz(const std::shared_ptr<const MappedFile>& file,
                                          std::size_t max_inflated_bytes = std::size_t{16} << 30U);

// A file of stored, aligned arrays that appears whole or not at all. Fails as write_npy() does, and with
// kInvalidArgument for names that occur twice or cannot be in a zip archive.
Status write_npz(const std::filesystem::path& path, std::span<const NamedTensor> tensors);

}  // namespace kpt
