#include "base/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

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

Status failure(std::string_view what, const std::filesystem::path& path, int error) {
  return {code_of(error), fmt::format("cannot {} {}: {}", what, path.string(), std::strerror(error))};
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
    if (written < 0) return failure("write", path, errno);
    content.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

Status flush_folder(const std::filesystem::path& folder) {
  Descriptor descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (descriptor.get() < 0) return failure("open folder", folder, errno);
  // Some file systems cannot flush folders and say EINVAL; the rename itself is still atomic there.
  if (::fsync(descriptor.get()) != 0 && errno != EINVAL) return failure("flush folder", folder, errno);
  return {};
}

}  // namespace

Result<std::string> read_text_file(const std::filesystem::path& path, std::size_t max_bytes) {
  Descriptor descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (descriptor.get() < 0) return failure("open", path, errno);
  std::string content;
  std::array<char, 16384> block;
  while (true) {
    const ssize_t count = ::read(descriptor.get(), block.data(), block.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return failure("read", path, errno);
    if (count == 0) return content;
    if (content.size() + static_cast<std::size_t>(count) > max_bytes) {
      return Status(StatusCode::kUnsupported,
                    fmt::format("{} is longer than the limit of {}", path.string(), format_bytes(max_bytes)));
    }
    content.append(block.data(), static_cast<std::size_t>(count));
  }
}

Status write_file_atomically(const std::filesystem::path& path, std::string_view content) {
  static std::atomic<unsigned> counter{0};
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return failure("create folder", folder, error.value());

  const std::filesystem::path temporary =
      folder / fmt::format(".{}.{}.{}.tmp", path.filename().string(), ::getpid(), counter.fetch_add(1));
  Descriptor descriptor(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (descriptor.get() < 0) return failure("create", temporary, errno);
  Status status = write_all(descriptor.get(), content, temporary);
  if (status.ok() && ::fsync(descriptor.get()) != 0) status = failure("flush", temporary, errno);
  if (descriptor.close() != 0 && status.ok()) status = failure("close", temporary, errno);
  if (status.ok() && ::rename(temporary.c_str(), path.c_str()) != 0) status = failure("rename to", path, errno);
  if (!status.ok()) {
    ::unlink(temporary.c_str());
    return status;
  }
  return flush_folder(folder);
}

std::filesystem::path SystemFiles::resolve(std::string_view absolute_path) const {
  return root_ / std::filesystem::path(absolute_path).relative_path();
}

Result<std::string> SystemFiles::read(std::string_view absolute_path) const {
  constexpr std::size_t kMaxBytes = 1 << 20;
  KPT_ASSIGN_OR_RETURN(const std::string text, read_text_file(resolve(absolute_path), kMaxBytes));
  return std::string(trim(text));
}

Result<std::vector<std::string>> SystemFiles::list(std::string_view absolute_path) const {
  const std::filesystem::path folder = resolve(absolute_path);
  std::error_code error;
  std::filesystem::directory_iterator entries(folder, error);
  if (error) return failure("list", folder, error.value());
  std::vector<std::string> names;
  while (entries != std::filesystem::directory_iterator()) {
    names.push_back(entries->path().filename().string());
    entries.increment(error);
    if (error) return failure("list", folder, error.value());
  }
  // Shorter first among names that share a prefix and end in a number: "node9" < "node10".
  std::ranges::sort(names, [](const std::string& a, const std::string& b) {
    const auto a_digits = a.find_first_of("0123456789");
    const auto b_digits = b.find_first_of("0123456789");
    if (a_digits != std::string::npos && a_digits == b_digits && a.compare(0, a_digits, b, 0, b_digits) == 0) {
      const auto a_number = parse_uint(std::string_view(a).substr(a_digits));
      const auto b_number = parse_uint(std::string_view(b).substr(b_digits));
      if (a_number && b_number && *a_number != *b_number) return *a_number < *b_number;
    }
    return a < b;
  });
  return names;
}

bool SystemFiles::exists(std::string_view absolute_path) const {
  std::error_code error;
  return std::filesystem::exists(resolve(absolute_path), error);
}

bool SystemFiles::can_open(std::string_view absolute_path) const {
  return ::access(resolve(absolute_path).c_str(), R_OK | W_OK) == 0;
}

}  // namespace kpt
