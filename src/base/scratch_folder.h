// A private folder for files that nobody else is to see, removed with the object.
#pragma once

#include <filesystem>
#include <string_view>
#include <utility>

#include "kpt/status.h"

namespace kpt {

class ScratchFolder {
 public:
  // Below the system's folder for temporary files, under a name that nobody else has. Fails as mkdtemp() does.
  static Result<ScratchFolder> make(std::string_view prefix);
  // In the folder of `path`, which is made where it is missing: for parts of what will be written there, which may be
  // more than the memory that often lies behind the system's folder. What a killed process leaves goes with the next
  // write beside it, as of AtomicFile; hence it may hold files alone. Fails with kPermissionDenied, kNotFound, kIo.
  static Result<ScratchFolder> make_beside(const std::filesystem::path& path);
  ScratchFolder(ScratchFolder&& other) noexcept
      : path_(std::exchange(other.path_, std::filesystem::path())), lock_(std::exchange(other.lock_, -1)) {}
  ScratchFolder& operator=(ScratchFolder&&) = delete;
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder();
  const std::filesystem::path& path() const { return path_; }

 private:
  ScratchFolder(std::filesystem::path path, int lock) : path_(std::move(path)), lock_(lock) {}
  std::filesystem::path path_;
  int lock_;  // held while it lives; -1: none
};

}  // namespace kpt
