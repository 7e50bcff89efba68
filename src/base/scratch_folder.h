// A private folder for files that nobody else is to see, removed with the object.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/files.h"
#include "kpt/status.h"

namespace kpt {

class ScratchFolder {
 public:
  // Below the system's folder for temporary files, under a name that nobody else has. Fails as mkdtemp() does.
  static Result<ScratchFolder> make(std::string_view prefix) {
    std::error_code error;
    const std::filesystem::path parent = std::filesystem::temp_directory_path(error);
    std::string pattern = (error ? std::filesystem::path("/tmp") : parent) / (std::string(prefix) + "XXXXXX");
    if (::mkdtemp(pattern.data()) == nullptr) return file_failure("make the folder", pattern, errno);
    return ScratchFolder(std::move(pattern));
  }
  ScratchFolder(ScratchFolder&& other) noexcept : path_(std::exchange(other.path_, std::filesystem::path())) {}
  ScratchFolder& operator=(ScratchFolder&&) = delete;
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  explicit ScratchFolder(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path path_;
};

}  // namespace kpt
