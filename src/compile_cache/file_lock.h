// A lock between processes (and threads), held on a file; the system releases it when its holder ends, however it ends.
#pragma once

#include <cstdint>
#include <filesystem>

#include "kpt/status.h"

namespace kpt::compile_cache {

class FileLock {
 public:
  enum class Kind : std::uint8_t { kShared, kExclusive };

  // Creates the file when it is missing, and waits. Fails with kPermissionDenied where the file cannot be written, and
  // with kIo.
  static Result<FileLock> acquire(const std::filesystem::path& path, Kind kind);
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&&) = delete;
  ~FileLock();

  int descriptor() const { return fd_; }  // of the file, open for reading and writing

 private:
  explicit FileLock(int fd) : fd_(fd) {}
  int fd_;
};

}  // namespace kpt::compile_cache
