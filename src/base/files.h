// Files as the rest of the tree needs them: bounded reads, writes that a crash cannot tear, and a rooted view of /proc
// and /sys that tests can replace.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "kpt/status.h"

namespace kpt {

// The whole file. Fails with kNotFound, kPermissionDenied, kIo, or kUnsupported when it is longer than `max_bytes`
// (the size is not trusted: reading stops there, so /proc files of size 0 and growing files are safe).
Result<std::string> read_text_file(const std::filesystem::path& path, std::size_t max_bytes);

// "cannot open model.pt2: No such file or directory" with the code that fits `error`, an errno value.
Status file_failure(std::string_view what, const std::filesystem::path& path, int error);

// A file written in pieces that appears whole or not at all: the pieces go to a temporary file beside `path`, which
// commit() flushes to the disk and renames. Without commit() nothing is left. Not for several threads at once.
// A process that is killed leaves its temporary file (".NAME.<process>.<random>.kpt.tmp"); the next create() in the
// same folder removes it. One whose writer lives is locked and stays, whichever process or container the writer is in.
class AtomicFile {
 public:
  // Creates missing parent folders. Fails with kPermissionDenied, kNotFound, kIo, and with kInvalidArgument where a
  // device, pipe or socket stands at `path`: the rename would remove it.
  static Result<AtomicFile> create(const std::filesystem::path& path);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();

  Status write(std::string_view content);
  // To be called once, as the last; the old file stays when it fails.
  Status commit();

 private:
  AtomicFile() = default;
  int fd_ = -1;
  std::filesystem::path path_;
  std::filesystem::path temporary_;  // empty once renamed
};

// Writes a temporary file beside `path`, flushes it to the disk, renames it over `path` and flushes the folder. A
// reader or a killed process sees the old content or the new, never a part. Creates missing parent folders.
Status write_file_atomically(const std::filesystem::path& path, std::string_view content);

// Puts a whole file that was flushed in the place of `path`: both on one file system, as what lies in a folder of
// ScratchFolder::make_beside() is. Fails as AtomicFile does; `from` then stays.
Status move_into_place(const std::filesystem::path& from, const std::filesystem::path& path);

// Whether a file could be put at `path`, as far as that is known without doing it: for long work that ends with one.
// Creates nothing. Fails as AtomicFile::create() does.
Status check_writable(const std::filesystem::path& path);

// A view of the system's own files (/proc, /sys, /dev, /opt) below `root`. Production uses "/"; a recorded machine is a
// folder. All paths given to it are absolute; ".." does not lead out of the root.
class SystemFiles {
 public:
  explicit SystemFiles(std::filesystem::path root = "/") : root_(std::move(root)) {}

  // Text without surrounding white space, at most 16 MiB (/proc/cpuinfo passes 1 MiB on a machine of 768 CPUs).
  Result<std::string> read(std::string_view absolute_path) const;
  // Names in a folder, sorted; those that end in their only number by its value, so that node10 follows node9.
  Result<std::vector<std::string>> list(std::string_view absolute_path) const;
  bool exists(std::string_view absolute_path) const;
  // True if this process may open the file for reading and writing (device nodes). On a recorded machine the owner's
  // permission bits decide, also for root.
  bool can_open(std::string_view absolute_path) const;
  std::filesystem::path resolve(std::string_view absolute_path) const;
  bool is_real() const { return root_ == "/"; }

 private:
  std::filesystem::path root_;
};

}  // namespace kpt
