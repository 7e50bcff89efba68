// Zip files byte by byte, also wrong ones: for tests only.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <zlib.h>

#include "archive/zip_format.h"
#include "base/little_endian.h"

namespace kpt::testing {

inline std::span<const std::byte> as_bytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

inline std::uint32_t crc_of(std::string_view text) {
  return static_cast<std::uint32_t>(::crc32_z(0, reinterpret_cast<const Bytef*>(text.data()), text.size()));
}

inline std::string deflate_raw(const std::string& text) {
  z_stream stream{};
  ::deflateInit2(&stream, 9, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY);
  std::string out(::deflateBound(&stream, text.size()) + 16, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  ::deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  ::deflateEnd(&stream);
  return out;
}

// One entry; every field may lie. What is not set is right.
struct ForgedEntry {
  std::string name;
  std::string content;
  bool deflate = false;
  bool data_descriptor = false;  // sizes and CRC follow the content, the local header has zeros
  bool zip64 = false;            // 64-bit sizes and offset in extra fields
  std::string local_extra;
  std::string directory_extra;
  std::string comment;
  std::uint16_t flags = 0;
  std::uint16_t disk = 0;
  std::optional<std::uint16_t> method;
  std::optional<std::uint32_t> crc32;
  std::optional<std::uint64_t> size;
  std::optional<std::uint64_t> compressed_size;
  std::optional<std::uint64_t> local_header;
  std::optional<std::string> local_name;
  std::optional<std::uint16_t> local_method;
  std::optional<std::uint16_t> local_flags;
  std::optional<std::uint32_t> local_crc32;
  std::optional<std::uint32_t> local_size;
  std::optional<std::uint16_t> local_extra_bytes;
  std::optional<std::uint16_t> directory_extra_bytes;
  bool no_local_part = false;  // only a directory entry
};

struct ForgedZip {
  explicit ForgedZip(std::vector<ForgedEntry> list = {}) : entries(std::move(list)) {}

  std::vector<ForgedEntry> entries;
  std::string prefix;             // before the first entry, counted in all offsets
  std::string after_entries;      // between the entries and the directory
  std::string after_directory;    // between the directory and the end records, counted in its size
  std::string before_end_record;  // not counted anywhere
  std::string comment;
  bool zip64 = false;
  std::uint16_t disk = 0;
  std::optional<std::uint64_t> count;
  std::optional<std::uint64_t> count_on_disk;
  std::optional<std::uint64_t> directory_size;
  std::optional<std::uint64_t> directory_offset;
  std::optional<std::uint16_t> comment_bytes;
  std::optional<std::uint64_t> zip64_record_bytes;
  std::optional<std::uint64_t> zip64_offset;
  std::uint32_t zip64_disk = 0;
  std::uint32_t zip64_disks = 1;
  bool narrow_fields_saturated = true;  // of the old end record, with zip64

  std::string build() const {
    std::string text = prefix;
    std::string directory;
    for (const ForgedEntry& entry : entries) append_entry(entry, text, directory);
    text += after_entries;
    const std::uint64_t offset = text.size();
    directory += after_directory;
    text += directory;
    append_end(text, offset, directory.size());
    return text;
  }

 private:
  static void u16(std::string& text, std::uint64_t value) {
    append_little_endian(text, static_cast<std::uint16_t>(value));
  }
  static void u32(std::string& text, std::uint64_t value) {
    append_little_endian(text, static_cast<std::uint32_t>(value));
  }
  static void u64(std::string& text, std::uint64_t value) { append_little_endian(text, value); }

  static void append_entry(const ForgedEntry& entry, std::string& text, std::string& directory) {
    const std::string stored = entry.deflate ? deflate_raw(entry.content) : entry.content;
    const std::uint16_t method =
        entry.method.value_or(entry.deflate ? zip_format::kMethodDeflated : zip_format::kMethodStored);
    const std::uint32_t crc = entry.crc32.value_or(crc_of(entry.content));
    const std::uint64_t size = entry.size.value_or(entry.content.size());
    const std::uint64_t compressed = entry.compressed_size.value_or(stored.size());
    const std::uint64_t offset = entry.local_header.value_or(text.size());
    const std::uint64_t flags = entry.flags | (entry.data_descriptor ? zip_format::kFlagDataDescriptor : 0U);
    if (!entry.no_local_part) {
      const std::string name = entry.local_name.value_or(entry.name);
      std::string extra;
      if (entry.zip64) {
        u16(extra, zip_format::kZip64Extra);
        u16(extra, 16);
        u64(extra, size);
        u64(extra, compressed);
      }
      extra += entry.local_extra;
      u32(text, zip_format::kLocalHeader);
      u16(text, 20);
      u16(text, entry.local_flags.value_or(static_cast<std::uint16_t>(flags)));
      u16(text, entry.local_method.value_or(method));
      u32(text, 0);
      u32(text, entry.local_crc32.value_or(entry.data_descriptor ? 0 : crc));
      u32(text, entry.zip64 ? zip_format::kIn64Bits32 : entry.data_descriptor ? 0 : compressed);
      u32(text, entry.local_size.value_or(entry.zip64             ? zip_format::kIn64Bits32
                                          : entry.data_descriptor ? 0
                                                                  : static_cast<std::uint32_t>(size)));
      u16(text, name.size());
      u16(text, entry.local_extra_bytes.value_or(static_cast<std::uint16_t>(extra.size())));
      text += name + extra + stored;
      if (entry.data_descriptor) {
        u32(text, 0x08074b50);
        u32(text, crc);
        u32(text, compressed);
        u32(text, size);
      }
    }
    std::string extra;
    if (entry.zip64) {
      u16(extra, zip_format::kZip64Extra);
      u16(extra, 24);
      u64(extra, size);
      u64(extra, compressed);
      u64(extra, offset);
    }
    extra += entry.directory_extra;
    u32(directory, zip_format::kDirectoryHeader);
    u16(directory, 20);
    u16(directory, 20);
    u16(directory, flags);
    u16(directory, method);
    u32(directory, 0);
    u32(directory, crc);
    u32(directory, entry.zip64 ? zip_format::kIn64Bits32 : compressed);
    u32(directory, entry.zip64 ? zip_format::kIn64Bits32 : size);
    u16(directory, entry.name.size());
    u16(directory, entry.directory_extra_bytes.value_or(static_cast<std::uint16_t>(extra.size())));
    u16(directory, entry.comment.size());
    u16(directory, entry.disk);
    u16(directory, 0);
    u32(directory, 0);
    u32(directory, entry.zip64 ? zip_format::kIn64Bits32 : offset);
    directory += entry.name + extra + entry.comment;
  }

  void append_end(std::string& text, std::uint64_t real_offset, std::uint64_t real_size) const {
    const std::uint64_t entry_count = count.value_or(entries.size());
    const std::uint64_t size = directory_size.value_or(real_size);
    const std::uint64_t offset = directory_offset.value_or(real_offset);
    const bool saturated = zip64 && narrow_fields_saturated;
    if (zip64) {
      const std::uint64_t record = text.size();
      u32(text, zip_format::kZip64EndRecord);
      u64(text, zip64_record_bytes.value_or(44));
      u32(text, 0);
      u32(text, zip64_disk);
      u32(text, 0);
      u64(text, count_on_disk.value_or(entry_count));
      u64(text, entry_count);
      u64(text, size);
      u64(text, offset);
      u32(text, zip_format::kZip64Locator);
      u32(text, 0);
      u64(text, zip64_offset.value_or(record));
      u32(text, zip64_disks);
    }
    text += before_end_record;
    u32(text, zip_format::kEndRecord);
    u16(text, disk);
    u16(text, 0);
    u16(text, saturated ? zip_format::kIn64Bits16 : count_on_disk.value_or(entry_count));
    u16(text, saturated ? zip_format::kIn64Bits16 : entry_count);
    u32(text, saturated ? zip_format::kIn64Bits32 : size);
    u32(text, saturated ? zip_format::kIn64Bits32 : offset);
    u16(text, comment_bytes.value_or(static_cast<std::uint16_t>(comment.size())));
    text += comment;
  }
};

}  // namespace kpt::testing
