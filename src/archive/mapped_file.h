// A file mapped into memory, read only.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "kpt/status.h"
#include "kpt/tensor.h"

namespace kpt {

// Shared by everything that points into it. Should the file be cut short while mapped, touching the lost part is
// SIGBUS: replace files by renaming, as write_file_atomically() does.
class MappedFile {
 public:
  // Fails with kNotFound, kPermissionDenied, kIo, kInvalidArgument (a folder, a device).
  static Result<std::shared_ptr<const MappedFile>> open(const std::filesystem::path& path);
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }
  const std::filesystem::path& path() const { return path_; }

 private:
  MappedFile() = default;
  std::filesystem::path path_;
  std::span<const std::byte> bytes_;
};

// A part of the file as a buffer that keeps the mapping alive; not writable. `bytes` must lie inside `file`.
std::shared_ptr<Buffer> make_buffer(std::shared_ptr<const MappedFile> file, std::span<const std::byte> bytes);

}  // namespace kpt
