#include "archive/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include "base/files.h"

namespace kpt {
namespace {

class MappedBuffer final : public Buffer {
 public:
  MappedBuffer(std::shared_ptr<const MappedFile> file, std::span<const std::byte> bytes)
      : file_(std::move(file)), bytes_(bytes) {}

  // Buffers of all kinds share one signature; writable() says that this address is for reading.
  void* data() const override { return const_cast<std::byte*>(bytes_.data()); }
  std::size_t bytes() const override { return bytes_.size(); }
  std::string_view device() const override { return "cpu"; }
  bool writable() const override { return false; }

 private:
  std::shared_ptr<const MappedFile> file_;
  std::span<const std::byte> bytes_;
};

// Closes the descriptor on every way out; the mapping does not need it.
struct Descriptor {
  int fd;
  explicit Descriptor(int number) : fd(number) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

}  // namespace

Result<std::shared_ptr<const MappedFile>> MappedFile::open(const std::filesystem::path& path) {
  // O_NONBLOCK: opening a pipe would otherwise wait for a writer.
  const Descriptor descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (descriptor.fd < 0) return file_failure("open", path, errno);
  struct stat info{};
  if (::fstat(descriptor.fd, &info) != 0) return file_failure("inspect", path, errno);
  if (!S_ISREG(info.st_mode)) {
    return Status(StatusCode::kInvalidArgument, fmt::format("{} is not a regular file", path.string()));
  }
  std::shared_ptr<MappedFile> file(new MappedFile);
  file->path_ = path;
  const auto size = static_cast<std::size_t>(info.st_size);
  if (size > 0) {  // mmap() refuses empty files
    void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor.fd, 0);
    if (address == MAP_FAILED) return file_failure("map", path, errno);
    file->bytes_ = {static_cast<const std::byte*>(address), size};
  }
  return std::shared_ptr<const MappedFile>(std::move(file));
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

std::shared_ptr<Buffer> make_buffer(std::shared_ptr<const MappedFile> file, std::span<const std::byte> bytes) {
  return std::make_shared<MappedBuffer>(std::move(file), bytes);
}

}  // namespace kpt
