// Reading zip archives in place, and writing stored ones.
//
// Hand-written because weights are used where they lie in the mapped file: stored entries give a view of its bytes.
// Everything in the file is untrusted: every offset and size is checked before use, entries may not overlap, names may
// not leave the archive, and nothing is allocated by a size that the file merely claims.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "archive/mapped_file.h"
#include "kpt/status.h"

namespace kpt {

struct ZipEntry {
  std::string name;
  std::uint64_t size = 0;             // of the content
  std::uint64_t compressed_size = 0;  // as stored
  std::uint64_t local_header = 0;     // offset in the file
  std::uint32_t crc32 = 0;
  bool deflated = false;  // otherwise stored
};

class ZipArchive {
 public:
  // Reads the central directory (ZIP64 too). Fails with kCorruptData naming the file, the entry and the place:
  // no end record, several disks, truncated or lying sizes, overlapping entries, duplicate names, names that are
  // absolute or contain the part "..", backslashes or zeros; with kUnsupported for encryption or methods other than
  // stored and deflated. `name` is for messages when the bytes are not a file's.
  static Result<ZipArchive> open(std::shared_ptr<const MappedFile> file);
  static Result<ZipArchive> from_bytes(std::span<const std::byte> bytes, std::string name);

  const std::string& name() const { return name_; }
  const std::shared_ptr<const MappedFile>& file() const { return file_; }  // null after from_bytes()
  const std::vector<ZipEntry>& entries() const { return entries_; }        // in the order of the directory
  const ZipEntry* find(std::string_view name) const;

  // The bytes of a stored entry where they lie. Checks the local header against the directory. The CRC is not looked
  // at (it would read gigabytes): see check(). kUnsupported for a deflated entry.
  Result<std::span<const std::byte>> view(const ZipEntry& entry) const;
  // The content, inflated if needed, CRC checked. Fails with kUnsupported when longer than `max_bytes`, and with
  // kCorruptData when it inflates to another size than the directory says or the CRC is wrong.
  Result<std::string> read(const ZipEntry& entry, std::size_t max_bytes) const;
  // Compares the CRC of the content.
  Status check(const ZipEntry& entry) const;

 private:
  std::string name_;
  std::span<const std::byte> bytes_;
  std::shared_ptr<const MappedFile> file_;
  std::vector<ZipEntry> entries_;
  std::map<std::string, std::size_t, std::less<>> index_;
};

// A zip file of stored entries, each starting at a multiple of `alignment` bytes. Content is gathered by reference:
// keep it alive until serialize() or write_file(). ZIP64 records where sizes need them. Equal content gives equal
// bytes.
class ZipBuilder {
 public:
  // `alignment` is at most 32 KiB. Sizes and offsets from `zip64_from` on get ZIP64 records; a smaller limit than the
  // format's own serves tests.
  explicit ZipBuilder(std::size_t alignment = 64, std::uint64_t zip64_from = 0xffffffff)
      : alignment_(alignment), zip64_from_(zip64_from) {}
  void add(std::string name, std::span<const std::byte> content);
  // Content in pieces, which follow each other without gaps.
  void add_pieces(std::string name, std::vector<std::span<const std::byte>> pieces);
  // Fails with kInvalidArgument for a bad alignment and for names that ZipArchive would refuse.
  Result<std::string> serialize() const;
  // The same, piece by piece into a file that appears whole or not at all.
  Status write_file(const std::filesystem::path& path) const;

 private:
  Status check() const;
  Status emit(const std::function<Status(std::string_view)>& sink) const;

  struct Item {
    std::string name;
    std::vector<std::span<const std::byte>> pieces;
    std::uint64_t size() const;
  };
  std::size_t alignment_;
  std::uint64_t zip64_from_;
  std::vector<Item> items_;
};

}  // namespace kpt
