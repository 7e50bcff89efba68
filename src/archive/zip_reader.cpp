#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <zlib.h>

#include "archive/zip.h"
#include "archive/zip_format.h"
#include "base/little_endian.h"
#include "base/text.h"

namespace kpt {
namespace zip_format {

std::string_view find_name_fault(std::string_view name) {
  if (name.empty()) return "is empty";
  if (name.front() == '/') return "is absolute";
  if (name.find('\\') != std::string_view::npos) return "has a backslash";
  if (name.find('\0') != std::string_view::npos) return "has a zero byte";
  for (const std::string_view part : split(name, '/')) {
    if (part == "..") return "has a \"..\" that leads out of its folder";
  }
  return {};
}

}  // namespace zip_format

namespace {

using Bytes = std::span<const std::byte>;

// How names of entries appear in messages: foreign text, and possibly 64 KiB of it.
std::string shown(std::string_view name) { return printable(name, 200); }

std::uint16_t u16(Bytes bytes, std::size_t at) { return load_little_endian<std::uint16_t>(bytes.data() + at); }
std::uint32_t u32(Bytes bytes, std::size_t at) { return load_little_endian<std::uint32_t>(bytes.data() + at); }
std::uint64_t u64(Bytes bytes, std::size_t at) { return load_little_endian<std::uint64_t>(bytes.data() + at); }

std::string_view text_of(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

// True when [offset, offset + size) lies inside the first `limit` bytes.
bool fits(std::uint64_t offset, std::uint64_t size, std::uint64_t limit) {
  return offset <= limit && size <= limit - offset;
}

struct Directory {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  std::uint64_t count = 0;
};

class DirectoryReader {
 public:
  DirectoryReader(Bytes bytes, const std::string& archive) : bytes_(bytes), archive_(archive) {}

  // Where the directory lies. It must end right where the end records begin: an archive with foreign bytes before it
  // has wrong offsets throughout, and is refused here.
  Result<Directory> find() const;
  // The entry at `position`, which moves behind it.
  Result<ZipEntry> read_entry(const Directory& directory, std::uint64_t& position) const;

 private:
  Status corrupt(std::string_view what) const {
    return {StatusCode::kCorruptData, fmt::format("{} is not a sound zip archive: {}", archive_, what)};
  }
  std::optional<std::size_t> find_end_record() const;
  Status apply_zip64(std::size_t end_record, Directory& directory, std::uint64_t& records_begin) const;
  Status apply_zip64_extra(Bytes extra, ZipEntry& entry) const;
  Status check_entry(const ZipEntry& entry, std::uint16_t flags, std::uint16_t method, std::uint16_t disk) const;

  Bytes bytes_;
  const std::string& archive_;
};

// The end record is the last thing in the file but for a comment, whose length must lead exactly to the end.
std::optional<std::size_t> DirectoryReader::find_end_record() const {
  if (bytes_.size() < zip_format::kEndRecordBytes) return std::nullopt;
  const std::size_t last = bytes_.size() - zip_format::kEndRecordBytes;
  const std::size_t first = last - std::min<std::size_t>(last, std::numeric_limits<std::uint16_t>::max());
  for (std::size_t at = last + 1; at-- > first;) {
    if (u32(bytes_, at) == zip_format::kEndRecord && u16(bytes_, at + 20) == last - at) return at;
  }
  return std::nullopt;
}

// Numbers too large for the end record stand in a ZIP64 record before it, to which a locator between the two points.
Status DirectoryReader::apply_zip64(std::size_t end_record, Directory& directory, std::uint64_t& records_begin) const {
  // Without a locator the values are meant literally, and the caller sees whether they are right.
  if (end_record < zip_format::kZip64LocatorBytes ||
      u32(bytes_, end_record - zip_format::kZip64LocatorBytes) != zip_format::kZip64Locator)
    return {};
  const std::size_t locator = end_record - zip_format::kZip64LocatorBytes;
  const std::uint64_t record = u64(bytes_, locator + 8);
  if (u32(bytes_, locator + 4) != 0 || u32(bytes_, locator + 16) > 1) return corrupt("it spans several disks");
  if (!fits(record, zip_format::kZip64EndRecordBytes, locator) || u32(bytes_, record) != zip_format::kZip64EndRecord) {
    return corrupt("its ZIP64 locator points to no ZIP64 end record");
  }
  if (u64(bytes_, record + 4) != locator - record - 12) return corrupt("its ZIP64 end record has a wrong length");
  if (u32(bytes_, record + 16) != 0 || u32(bytes_, record + 20) != 0) return corrupt("it spans several disks");
  const Directory large{u64(bytes_, record + 48), u64(bytes_, record + 40), u64(bytes_, record + 32)};
  if (u64(bytes_, record + 24) != large.count) return corrupt("it spans several disks");
  const bool contradicts = (directory.count != zip_format::kIn64Bits16 && directory.count != large.count) ||
                           (directory.size != zip_format::kIn64Bits32 && directory.size != large.size) ||
                           (directory.offset != zip_format::kIn64Bits32 && directory.offset != large.offset);
  if (contradicts) return corrupt("its two end records disagree");
  directory = large;
  records_begin = record;
  return {};
}

Result<Directory> DirectoryReader::find() const {
  const std::optional<std::size_t> end_record = find_end_record();
  if (!end_record) return corrupt("it has no end record, so it is cut short or of another format");
  const std::size_t end = *end_record;
  if (u16(bytes_, end + 4) != 0 || u16(bytes_, end + 6) != 0 || u16(bytes_, end + 8) != u16(bytes_, end + 10)) {
    return corrupt("it spans several disks");
  }
  Directory directory{u32(bytes_, end + 16), u32(bytes_, end + 12), u16(bytes_, end + 10)};
  std::uint64_t records_begin = end;
  KPT_RETURN_IF_ERROR(apply_zip64(end, directory, records_begin));
  if (!fits(directory.offset, directory.size, records_begin) || directory.offset + directory.size != records_begin) {
    return corrupt(fmt::format("its directory ({} bytes at {}) does not end where its end record begins ({})",
                               directory.size, directory.offset, records_begin));
  }
  if (directory.count > directory.size / zip_format::kDirectoryHeaderBytes) {
    return corrupt(fmt::format("it claims {} entries in a directory of {} bytes", directory.count, directory.size));
  }
  return directory;
}

Status DirectoryReader::apply_zip64_extra(Bytes extra, ZipEntry& entry) const {
  while (extra.size() >= 4) {  // fewer bytes are padding
    const std::uint16_t id = u16(extra, 0);
    const std::size_t length = u16(extra, 2);
    if (length > extra.size() - 4) return corrupt(fmt::format("an extra field of {} is cut short", shown(entry.name)));
    Bytes field = extra.subspan(4, length);
    extra = extra.subspan(4 + length);
    if (id != zip_format::kZip64Extra) continue;
    for (std::uint64_t* value : {&entry.size, &entry.compressed_size, &entry.local_header}) {
      if (*value != zip_format::kIn64Bits32) continue;
      if (field.size() < 8) return corrupt(fmt::format("the ZIP64 field of {} is cut short", shown(entry.name)));
      *value = u64(field, 0);
      field = field.subspan(8);
    }
    return {};
  }
  return {};
}

Status DirectoryReader::check_entry(const ZipEntry& entry, std::uint16_t flags, std::uint16_t method,
                                    std::uint16_t disk) const {
  if (const std::string_view fault = zip_format::find_name_fault(entry.name); !fault.empty()) {
    return corrupt(fmt::format("the entry name \"{}\" {}", shown(entry.name), fault));
  }
  if (disk != 0) return corrupt("it spans several disks");
  if ((flags & zip_format::kFlagsNotSupported) != 0) {
    return {StatusCode::kUnsupported, fmt::format("{} in {} is encrypted or patched", shown(entry.name), archive_)};
  }
  if (method != zip_format::kMethodStored && method != zip_format::kMethodDeflated) {
    return {StatusCode::kUnsupported, fmt::format("{} in {} is compressed by method {}; store or deflate it",
                                                  shown(entry.name), archive_, method)};
  }
  if (!entry.deflated && entry.size != entry.compressed_size) {
    return corrupt(fmt::format("{} is stored, but its two sizes are {} and {}", shown(entry.name), entry.size,
                               entry.compressed_size));
  }
  if (entry.name.back() == '/' && entry.size != 0) {
    return corrupt(fmt::format("{} is a folder with content", shown(entry.name)));
  }
  return {};
}

Result<ZipEntry> DirectoryReader::read_entry(const Directory& directory, std::uint64_t& position) const {
  const std::uint64_t end = directory.offset + directory.size;
  if (!fits(position, zip_format::kDirectoryHeaderBytes, end) ||
      u32(bytes_, position) != zip_format::kDirectoryHeader) {
    return corrupt(fmt::format("there is no directory entry at {}", position));
  }
  const Bytes header = bytes_.subspan(position, zip_format::kDirectoryHeaderBytes);
  const std::size_t name_bytes = u16(header, 28);
  const std::size_t extra_bytes = u16(header, 30);
  const std::size_t comment_bytes = u16(header, 32);
  position += zip_format::kDirectoryHeaderBytes;
  if (!fits(position, name_bytes + extra_bytes + comment_bytes, end)) {
    return corrupt(fmt::format("the directory entry before {} is cut short", position));
  }
  ZipEntry entry;
  entry.name = text_of(bytes_.subspan(position, name_bytes));
  entry.crc32 = u32(header, 16);
  entry.compressed_size = u32(header, 20);
  entry.size = u32(header, 24);
  entry.local_header = u32(header, 42);
  entry.deflated = u16(header, 10) == zip_format::kMethodDeflated;
  KPT_RETURN_IF_ERROR(apply_zip64_extra(bytes_.subspan(position + name_bytes, extra_bytes), entry));
  KPT_RETURN_IF_ERROR(check_entry(entry, u16(header, 8), u16(header, 10), u16(header, 34)));
  position += name_bytes + extra_bytes + comment_bytes;
  return entry;
}

// The bytes of an entry as they lie in the file. The directory rules; the local header must agree, except for sizes and
// CRC that it leaves to a data descriptor or to ZIP64 (PyTorch does).
Result<Bytes> find_content(Bytes bytes, const std::string& archive, const ZipEntry& entry) {
  const auto corrupt = [&](std::string_view what) {
    return Status(StatusCode::kCorruptData, fmt::format("{} in {} {}", shown(entry.name), archive, what));
  };
  if (!fits(entry.local_header, zip_format::kLocalHeaderBytes, bytes.size()) ||
      u32(bytes, entry.local_header) != zip_format::kLocalHeader) {
    return corrupt(fmt::format("has no local header at {}", entry.local_header));
  }
  const Bytes header = bytes.subspan(entry.local_header, zip_format::kLocalHeaderBytes);
  const std::size_t name_bytes = u16(header, 26);
  const std::size_t extra_bytes = u16(header, 28);
  const std::uint64_t name_at = entry.local_header + zip_format::kLocalHeaderBytes;
  if (!fits(name_at, name_bytes + extra_bytes, bytes.size())) return corrupt("has a local header that is cut short");
  if (text_of(bytes.subspan(name_at, name_bytes)) != entry.name) return corrupt("has another name in its local header");
  if ((u16(header, 8) == zip_format::kMethodDeflated) != entry.deflated ||
      (u16(header, 6) & zip_format::kFlagsNotSupported) != 0) {
    return corrupt("has another method or encryption in its local header");
  }
  const bool sizes_elsewhere = (u16(header, 6) & zip_format::kFlagDataDescriptor) != 0;
  const std::uint32_t compressed_size = u32(header, 18);
  const std::uint32_t size = u32(header, 22);
  if (!sizes_elsewhere && ((compressed_size != zip_format::kIn64Bits32 && compressed_size != entry.compressed_size) ||
                           (size != zip_format::kIn64Bits32 && size != entry.size) || u32(header, 14) != entry.crc32)) {
    return corrupt("has other sizes or another CRC in its local header");
  }
  const std::uint64_t content_at = name_at + name_bytes + extra_bytes;
  if (!fits(content_at, entry.compressed_size, bytes.size())) {
    return corrupt(fmt::format("claims {} bytes at {}, beyond the end", entry.compressed_size, content_at));
  }
  return bytes.subspan(content_at, entry.compressed_size);
}

// Entries that share bytes are how small files unpack to petabytes, and no writer makes them.
Status check_overlap(Bytes bytes, const std::string& archive, const std::vector<ZipEntry>& entries,
                     const Directory& directory) {
  std::vector<const ZipEntry*> by_place;
  by_place.reserve(entries.size());
  for (const ZipEntry& entry : entries) by_place.push_back(&entry);
  std::ranges::sort(by_place, {}, &ZipEntry::local_header);
  std::uint64_t free_from = 0;
  for (const ZipEntry* entry : by_place) {
    KPT_ASSIGN_OR_RETURN(const Bytes content, find_content(bytes, archive, *entry));
    const auto end = static_cast<std::uint64_t>(content.data() + content.size() - bytes.data());
    if (entry->local_header < free_from || end > directory.offset) {
      return {StatusCode::kCorruptData,
              fmt::format("{} in {} overlaps another entry or the directory", shown(entry->name), archive)};
    }
    free_from = end;
  }
  return {};
}

// Gives the inflated bytes to `take` block by block, until the end of the stream or `size` bytes. False when the stream
// is damaged, ends elsewhere than its input, or holds another number of bytes than `size`.
template <typename Take>
bool inflate_blocks(Bytes content, std::uint64_t size, const Take& take) {
  z_stream stream{};
  constexpr int kRawDeflate = -15;
  if (::inflateInit2(&stream, kRawDeflate) != Z_OK) return false;
  std::array<std::byte, 1U << 16U> block;
  std::uint64_t total = 0;
  int state = Z_OK;
  while (state == Z_OK && total <= size) {
    if (stream.avail_in == 0) {
      const std::size_t part = std::min<std::size_t>(content.size(), 1U << 30U);
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(content.data()));
      stream.avail_in = static_cast<uInt>(part);
      content = content.subspan(part);
    }
    stream.next_out = reinterpret_cast<Bytef*>(block.data());
    stream.avail_out = static_cast<uInt>(block.size());
    state = ::inflate(&stream, Z_NO_FLUSH);
    const std::size_t made = block.size() - stream.avail_out;
    total += made;
    if (made > 0 && total <= size) take(Bytes(block.data(), made));
  }
  const bool whole = state == Z_STREAM_END && stream.avail_in == 0 && content.empty() && total == size;
  ::inflateEnd(&stream);
  return whole;
}

std::uint32_t update_crc(std::uint32_t crc, Bytes bytes) {
  return static_cast<std::uint32_t>(
      ::crc32_z(crc, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<z_size_t>(bytes.size())));
}

// Hands over the whole content and compares its CRC.
template <typename Take>
Status read_content(Bytes bytes, const std::string& archive, const ZipEntry& entry, const Take& take) {
  KPT_ASSIGN_OR_RETURN(const Bytes stored, find_content(bytes, archive, entry));
  std::uint32_t crc = 0;
  if (!entry.deflated) {
    crc = update_crc(crc, stored);
    take(stored);
  } else if (!inflate_blocks(stored, entry.size, [&](Bytes block) {
               crc = update_crc(crc, block);
               take(block);
             })) {
    return {StatusCode::kCorruptData,
            fmt::format("{} in {} does not inflate to {} bytes", shown(entry.name), archive, entry.size)};
  }
  if (crc != entry.crc32) {
    return {StatusCode::kCorruptData,
            fmt::format("{} in {} is damaged: its CRC is {:08x} instead of {:08x} ({} bytes at {})", shown(entry.name),
                        archive, crc, entry.crc32, stored.size(), stored.data() - bytes.data())};
  }
  return {};
}

}  // namespace

Result<ZipArchive> ZipArchive::open(std::shared_ptr<const MappedFile> file) {
  KPT_ASSIGN_OR_RETURN(ZipArchive archive, from_bytes(file->bytes(), file->path().string()));
  archive.file_ = std::move(file);
  return archive;
}

Result<ZipArchive> ZipArchive::from_bytes(std::span<const std::byte> bytes, std::string name) {
  ZipArchive archive;
  archive.name_ = std::move(name);
  archive.bytes_ = bytes;
  const DirectoryReader reader(bytes, archive.name_);
  KPT_ASSIGN_OR_RETURN(const Directory directory, reader.find());
  archive.entries_.reserve(directory.count);
  std::uint64_t position = directory.offset;
  for (std::uint64_t i = 0; i < directory.count; ++i) {
    KPT_ASSIGN_OR_RETURN(ZipEntry entry, reader.read_entry(directory, position));
    if (!archive.index_.emplace(entry.name, archive.entries_.size()).second) {
      return Status(StatusCode::kCorruptData,
                    fmt::format("{} has two entries named {}", archive.name_, shown(entry.name)));
    }
    archive.entries_.push_back(std::move(entry));
  }
  if (position != directory.offset + directory.size) {
    return Status(StatusCode::kCorruptData,
                  fmt::format("{} has foreign bytes at {}, after its last directory entry", archive.name_, position));
  }
  KPT_RETURN_IF_ERROR(check_overlap(bytes, archive.name_, archive.entries_, directory));
  return archive;
}

const ZipEntry* ZipArchive::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &entries_[found->second];
}

Result<std::span<const std::byte>> ZipArchive::view(const ZipEntry& entry) const {
  if (entry.deflated) {
    return Status(StatusCode::kUnsupported,
                  fmt::format("{} in {} is compressed and cannot be used in place; store it without compression",
                              shown(entry.name), name_));
  }
  return find_content(bytes_, name_, entry);
}

Result<std::string> ZipArchive::read(const ZipEntry& entry, std::size_t max_bytes) const {
  if (entry.size > max_bytes) {
    return Status(StatusCode::kUnsupported, fmt::format("{} in {} has {}, more than the limit of {}", shown(entry.name),
                                                        name_, format_bytes(entry.size), format_bytes(max_bytes)));
  }
  std::string content;
  KPT_RETURN_IF_ERROR(read_content(bytes_, name_, entry, [&](Bytes block) { content.append(text_of(block)); }));
  return content;
}

Status ZipArchive::check(const ZipEntry& entry) const {
  return read_content(bytes_, name_, entry, [](Bytes) {});
}

}  // namespace kpt
