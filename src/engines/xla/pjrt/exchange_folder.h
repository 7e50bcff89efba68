// A private folder for what this process and a compiling child hand each other, removed with the object.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "base/files.h"
#include "kpt/status.h"

namespace kpt::pjrt {

class ExchangeFolder {
 public:
  // Below the system's folder for temporary files. Fails as mkdtemp() does.
  static Result<ExchangeFolder> make() {
    std::error_code error;
    const std::filesystem::path parent = std::filesystem::temp_directory_path(error);
    std::string pattern = (error ? std::filesystem::path("/tmp") : parent) / "kpt-pjrt-XXXXXX";
    if (::mkdtemp(pattern.data()) == nullptr) return file_failure("cannot make a folder", pattern, errno);
    return ExchangeFolder(std::move(pattern));
  }
  ExchangeFolder(ExchangeFolder&& other) noexcept : path_(std::exchange(other.path_, std::filesystem::path())) {}
  ExchangeFolder& operator=(ExchangeFolder&&) = delete;
  ExchangeFolder(const ExchangeFolder&) = delete;
  ExchangeFolder& operator=(const ExchangeFolder&) = delete;
  ~ExchangeFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  std::filesystem::path request() const { return path_ / "request"; }
  std::filesystem::path result() const { return path_ / "executable"; }

 private:
  explicit ExchangeFolder(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path path_;
};

}  // namespace kpt::pjrt
