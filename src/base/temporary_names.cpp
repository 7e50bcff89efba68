#include "base/temporary_names.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <string>
#include <system_error>

#include <fmt/format.h>

namespace kpt {
namespace {

constexpr std::string_view kTemporarySuffix = ".kpt.tmp";
constexpr std::size_t kRandomDigits = 16;

std::uint64_t random_number() {
  static std::atomic<std::uint64_t> counter{0};
  std::uint64_t number = 0;
  if (::getrandom(&number, sizeof(number), 0) == sizeof(number)) return number;
  // Still another one than before in this process; who creates it asks for a name that is not there.
  return static_cast<std::uint64_t>(std::chrono::system_clock::now().time_since_epoch().count()) ^
         (counter.fetch_add(1) << 48U);
}

// Not deeper than its writer goes: a folder in it, or a link, is somebody else's.
void remove_folder_of_files(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::directory_iterator entries(folder, error);
  while (!error && entries != std::filesystem::directory_iterator()) {
    struct stat info{};
    const std::filesystem::path& path = entries->path();
    if (::lstat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode)) ::unlink(path.c_str());
    entries.increment(error);
  }
  ::rmdir(folder.c_str());
}

// Whoever gets the lock of such a file has no living writer before him; a name is never used twice, so the name that is
// removed is that of the locked file or of nothing any more. What cannot be opened or locked stays: it is another
// user's, or in use.
void remove_if_stale(const std::filesystem::path& path) {
  struct stat info{};
  if (::lstat(path.c_str(), &info) != 0 || (!S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode))) return;
  const bool is_folder = S_ISDIR(info.st_mode);
  const int how = is_folder ? O_RDONLY | O_DIRECTORY : O_WRONLY;
  const int fd = ::open(path.c_str(), how | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return;
  const bool same_kind = ::fstat(fd, &info) == 0 && (is_folder ? S_ISDIR(info.st_mode) : S_ISREG(info.st_mode));
  if (same_kind && ::flock(fd, LOCK_EX | LOCK_NB) == 0) {
    if (is_folder) {
      remove_folder_of_files(path);
    } else {
      ::unlink(path.c_str());
    }
  }
  ::close(fd);
}

}  // namespace

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

std::filesystem::path draw_temporary_name(const std::filesystem::path& path) {
  constexpr std::size_t kMaxNameBytes = 200;  // names may have 255 in all; one that is too long fails at the rename
  const std::string name = path.filename().string().substr(0, kMaxNameBytes);
  return folder_of(path) / fmt::format(".{}.{}.{:016x}{}", name, ::getpid(), random_number(), kTemporarySuffix);
}

bool is_temporary(std::string_view name) {
  if (!name.starts_with('.') || !name.ends_with(kTemporarySuffix)) return false;
  name.remove_suffix(kTemporarySuffix.size());
  if (name.size() < kRandomDigits) return false;
  const std::string_view digits = name.substr(name.size() - kRandomDigits);
  name.remove_suffix(kRandomDigits);
  if (digits.find_first_not_of("0123456789abcdef") != std::string_view::npos || !name.ends_with('.')) return false;
  name.remove_suffix(1);
  const auto dot = name.rfind('.');
  const std::string_view process = name.substr(dot + 1);
  return dot > 0 && !process.empty() && process.find_first_not_of("0123456789") == std::string_view::npos;
}

bool lock_temporary(int fd) {
  while (::flock(fd, LOCK_EX) != 0) {
    if (errno != EINTR) return true;
  }
  struct stat info{};
  return ::fstat(fd, &info) != 0 || info.st_nlink > 0;
}

void remove_stale(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::directory_iterator entries(folder, error);
  while (!error && entries != std::filesystem::directory_iterator()) {
    if (is_temporary(entries->path().filename().native())) remove_if_stale(entries->path());
    entries.increment(error);
  }
}

}  // namespace kpt
