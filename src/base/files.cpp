#include "base/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <compare>
#include <cstring>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/temporary_names.h"
#include "base/text.h"

namespace kpt {
namespace {

StatusCode code_of(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR: return StatusCode::kNotFound;
    case EACCES:
    case EPERM:
    case EROFS: return StatusCode::kPermissionDenied;
    default: return StatusCode::kIo;
  }
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { close(); }
  int get() const { return fd_; }
  int close() {
    const int fd = fd_;
    fd_ = -1;
    return fd < 0 ? 0 : ::close(fd);
  }

 private:
  int fd_;
};

Status write_all(int fd, std::string_view content, const std::filesystem::path& path) {
  while (!content.empty()) {
    const ssize_t written = ::write(fd, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return file_failure("write", path, errno);
    content.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

// Orders the names of a folder. Comparing keys, not pairs of names, keeps it an order: a rule that looks at both names
// (numbers by value, anything else by letters) makes a circle of node9, node10 and node1a.
struct SortKey {
  std::string_view prefix;  // before the first digit
  int kind = 0;             // 0: no digit, 1: a number and nothing after it, 2: anything else, e.g. PCI addresses
  std::size_t digits = 0;   // of the number, without leading zeros
  std::string_view number;
  std::string_view name;
  auto operator<=>(const SortKey&) const = default;
};

SortKey sort_key(std::string_view name) {
  constexpr std::string_view kDigits = "0123456789";
  const auto first = name.find_first_of(kDigits);
  if (first == std::string_view::npos) return {name, 0, 0, {}, name};
  std::string_view number = name.substr(first);
  if (number.find_first_not_of(kDigits) != std::string_view::npos) return {name.substr(0, first), 2, 0, {}, name};
  number.remove_prefix(std::min(number.find_first_not_of('0'), number.size()));
  return {name.substr(0, first), 1, number.size(), number, name};
}

Status flush_folder(const std::filesystem::path& folder) {
  Descriptor descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (descriptor.get() < 0) return file_failure("open folder", folder, errno);
  // Some file systems cannot flush folders and say EINVAL; the rename itself is still atomic there.
  if (::fsync(descriptor.get()) != 0 && errno != EINVAL) return file_failure("flush folder", folder, errno);
  return {};
}

// Folders and what is no file at all stay; a link gives way, whatever it leads to but a device.
Status check_replaceable(const std::filesystem::path& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0 || S_ISREG(info.st_mode)) return {};
  if (S_ISDIR(info.st_mode)) return file_failure("write", path, EISDIR);
  return {StatusCode::kInvalidArgument,
          fmt::format("cannot write {}: a file would take the place of a device, pipe or socket", path.string())};
}

// A locked file beside `path` that was not there before; -1 with errno.
int create_temporary(const std::filesystem::path& path, std::filesystem::path& temporary) {
  constexpr int kMaxTries = 1000;
  for (int i = 0; i < kMaxTries; ++i) {
    temporary = draw_temporary_name(path);
    const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0 && errno != EEXIST) return -1;
    if (fd < 0) continue;
    if (lock_temporary(fd)) return fd;
    ::close(fd);
  }
  errno = EEXIST;
  return -1;
}

}  // namespace

Result<std::string> read_text_file(const std::filesystem::path& path, std::size_t max_bytes) {
  Descriptor descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (descriptor.get() < 0) return file_failure("open", path, errno);
  std::string content;
  std::array<char, 16384> block;
  while (true) {
    const ssize_t count = ::read(descriptor.get(), block.data(), block.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return file_failure("read", path, errno);
    if (count == 0) return content;
    if (content.size() + static_cast<std::size_t>(count) > max_bytes) {
      return Status(StatusCode::kUnsupported,
                    fmt::format("{} is longer than the limit of {}", path.string(), format_bytes(max_bytes)));
    }
    content.append(block.data(), static_cast<std::size_t>(count));
  }
}

Status file_failure(std::string_view what, const std::filesystem::path& path, int error) {
  return {code_of(error), fmt::format("cannot {} {}: {}", what, path.string(), std::generic_category().message(error))};
}

Result<AtomicFile> AtomicFile::create(const std::filesystem::path& path) {
  KPT_RETURN_IF_ERROR(check_replaceable(path));
  const std::filesystem::path folder = folder_of(path);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return file_failure("create folder", folder, error.value());

  remove_stale(folder);
  AtomicFile file;
  file.path_ = path;
  std::filesystem::path temporary;
  file.fd_ = create_temporary(path, temporary);
  if (file.fd_ < 0) return file_failure("create", temporary, errno);
  file.temporary_ = std::move(temporary);
  return file;
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, std::filesystem::path())) {}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) ::close(fd_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

Status AtomicFile::write(std::string_view content) { return write_all(fd_, content, temporary_); }

Status AtomicFile::commit() {
  if (::fsync(fd_) != 0) return file_failure("flush", temporary_, errno);
  // Renamed while it is locked: unlocked under its old name it would be taken for a leftover.
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) return file_failure("rename to", path_, errno);
  temporary_.clear();
  if (::close(std::exchange(fd_, -1)) != 0) return file_failure("close", path_, errno);
  return flush_folder(folder_of(path_));
}

Status write_file_atomically(const std::filesystem::path& path, std::string_view content) {
  KPT_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(path));
  KPT_RETURN_IF_ERROR(file.write(content));
  return file.commit();
}

Status move_into_place(const std::filesystem::path& from, const std::filesystem::path& path) {
  KPT_RETURN_IF_ERROR(check_replaceable(path));
  if (::rename(from.c_str(), path.c_str()) != 0) return file_failure("rename to", path, errno);
  return flush_folder(folder_of(path));
}

Status check_writable(const std::filesystem::path& path) {
  if (path.empty()) return file_failure("write", path, ENOENT);
  if (!path.has_filename()) return file_failure("write", path, EISDIR);
  KPT_RETURN_IF_ERROR(check_replaceable(path));
  std::error_code error;
  std::filesystem::path folder = std::filesystem::absolute(folder_of(path), error);
  if (error) return file_failure("write", path, error.value());
  while (!std::filesystem::exists(folder, error) && !error && folder.has_relative_path()) folder = folder.parent_path();
  if (error) return file_failure("look into", folder, error.value());
  if (!std::filesystem::is_directory(folder, error)) return file_failure("create folder", folder_of(path), ENOTDIR);
  const int access = ::faccessat(AT_FDCWD, folder.c_str(), W_OK | X_OK, AT_EACCESS);
  return access == 0 ? Status() : file_failure("write into", folder, errno);
}

std::filesystem::path SystemFiles::resolve(std::string_view absolute_path) const {
  // Not lexically_normal(): in sysfs "device/.." leads through a link. Only steps above the root are dropped.
  std::filesystem::path path = root_;
  int depth = 0;
  for (const std::filesystem::path& part : std::filesystem::path(absolute_path).relative_path()) {
    if (part == ".." && depth == 0) continue;
    depth += part == ".." ? -1 : 1;
    path /= part;
  }
  return path;
}

Result<std::string> SystemFiles::read(std::string_view absolute_path) const {
  constexpr std::size_t kMaxBytes = 16 << 20;
  KPT_ASSIGN_OR_RETURN(const std::string text, read_text_file(resolve(absolute_path), kMaxBytes));
  return std::string(trim(text));
}

Result<std::vector<std::string>> SystemFiles::list(std::string_view absolute_path) const {
  const std::filesystem::path folder = resolve(absolute_path);
  std::error_code error;
  std::filesystem::directory_iterator entries(folder, error);
  if (error) return file_failure("list", folder, error.value());
  std::vector<std::string> names;
  while (entries != std::filesystem::directory_iterator()) {
    names.push_back(entries->path().filename().string());
    entries.increment(error);
    if (error) return file_failure("list", folder, error.value());
  }
  std::ranges::sort(names, [](const std::string& a, const std::string& b) { return sort_key(a) < sort_key(b); });
  return names;
}

bool SystemFiles::exists(std::string_view absolute_path) const {
  std::error_code error;
  return std::filesystem::exists(resolve(absolute_path), error);
}

bool SystemFiles::can_open(std::string_view absolute_path) const {
  const std::filesystem::path path = resolve(absolute_path);
  if (is_real()) return ::access(path.c_str(), R_OK | W_OK) == 0;
  // A recorded machine must look the same to root, whom no permission stops: the owner's bits decide.
  struct stat info{};
  constexpr mode_t kReadWrite = S_IRUSR | S_IWUSR;
  return ::stat(path.c_str(), &info) == 0 && (info.st_mode & kReadWrite) == kReadWrite;
}

}  // namespace kpt
