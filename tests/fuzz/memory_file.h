// A file that exists in memory only, for readers that want a mapped one.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>

#include "archive/mapped_file.h"

namespace kpt::testing {

class MemoryFile {
 public:
  MemoryFile() : fd_(::memfd_create("fuzz", MFD_CLOEXEC)) {
    if (fd_ < 0) std::abort();
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() { ::close(fd_); }

  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }
  std::shared_ptr<const MappedFile> map(const std::uint8_t* data, std::size_t size) const {
    if (::ftruncate(fd_, 0) != 0 || ::pwrite(fd_, data, size, 0) != static_cast<ssize_t>(size)) std::abort();
    return MappedFile::open(path()).value();
  }

 private:
  int fd_;
};

}  // namespace kpt::testing
