#include "engines/xla/pjrt/compile_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "base/files.h"

namespace kpt::pjrt {
namespace {

enum class Attempt : unsigned char { kTaken, kBusy, kReplaced };

// Whoever gives the lock back removes the file. One who waited for it then has the lock of a file without a name, and
// must try the one that has the name now.
bool is_at(const std::filesystem::path& path, int fd) {
  struct stat open_file = {};
  struct stat named_file = {};
  return ::fstat(fd, &open_file) == 0 && ::stat(path.c_str(), &named_file) == 0 &&
         open_file.st_dev == named_file.st_dev && open_file.st_ino == named_file.st_ino;
}

Result<Attempt> wait_for_lock(const std::filesystem::path& path, int fd,
                              std::chrono::steady_clock::time_point deadline) {
  while (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return file_failure("cannot lock", path, errno);
    if (std::chrono::steady_clock::now() >= deadline) return Attempt::kBusy;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return is_at(path, fd) ? Attempt::kTaken : Attempt::kReplaced;
}

}  // namespace

Result<CompileLock> CompileLock::take(const std::filesystem::path& path,
                                      std::chrono::steady_clock::time_point deadline) {
  Result<Attempt> attempt = Attempt::kReplaced;
  while (true) {
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return file_failure("cannot open", path, errno);
    attempt = wait_for_lock(path, fd, deadline);
    if (attempt.ok() && *attempt == Attempt::kTaken) return CompileLock(path, fd);
    ::close(fd);
    if (!attempt.ok() || *attempt == Attempt::kBusy) break;
  }
  KPT_RETURN_IF_ERROR(attempt.status());
  return Status(
      StatusCode::kCompilationTimeout,
      fmt::format("another compile for a TPU is running and did not end in time ({} is locked); wait for it, "
                  "or raise the option tpu.compile_timeout_ms (pjrt.compile_timeout_ms for a TPU that is here)",
                  path.string()),
      Vendor::kTpu);
}

CompileLock::CompileLock(std::filesystem::path path, int fd) : path_(std::move(path)), fd_(fd) {}

CompileLock::CompileLock(CompileLock&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}

CompileLock::~CompileLock() {
  if (fd_ < 0) return;
  ::unlink(path_.c_str());  // while it is still ours: afterwards another may have made it anew
  ::close(fd_);
}

}  // namespace kpt::pjrt
