#include "compile_cache/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/files.h"

namespace kpt::compile_cache {

Result<FileLock> FileLock::acquire(const std::filesystem::path& path, Kind kind) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return file_failure("open", path, errno);
  FileLock lock(fd);
  const int operation = kind == Kind::kShared ? LOCK_SH : LOCK_EX;
  while (::flock(fd, operation) != 0) {
    if (errno != EINTR) return file_failure("lock", path, errno);
  }
  return lock;
}

FileLock::FileLock(FileLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

FileLock::~FileLock() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace kpt::compile_cache
