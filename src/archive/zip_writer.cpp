#include <functional>
#include <limits>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <zlib.h>

#include "archive/zip.h"
#include "archive/zip_format.h"
#include "base/files.h"
#include "base/little_endian.h"
#include "base/text.h"

namespace kpt {
namespace {

constexpr std::uint16_t kVersion = 20;  // of the format that a reader must know
constexpr std::uint16_t kVersionZip64 = 45;
constexpr std::uint16_t kDosDate = 0x0021;        // 1980-01-01: equal content gives equal files
constexpr std::size_t kMaxAlignment = 1U << 15U;  // an extra field is shorter than 64 KiB

struct Record {
  std::string name;
  std::uint64_t size = 0;
  std::uint64_t offset = 0;
  std::uint32_t crc32 = 0;
};

void append_u16(std::string& text, std::uint64_t value) {
  append_little_endian(text, static_cast<std::uint16_t>(value));
}
void append_u32(std::string& text, std::uint64_t value) {
  append_little_endian(text, static_cast<std::uint32_t>(value));
}
void append_u64(std::string& text, std::uint64_t value) { append_little_endian(text, value); }

std::uint16_t flags_of(std::string_view name) {
  for (const char letter : name) {
    if (static_cast<unsigned char>(letter) >= 0x80) return zip_format::kFlagUtf8;
  }
  return 0;
}

// What local header and directory entry have alike, from "version needed" to the length of the name.
void append_shared_fields(std::string& text, const Record& record, bool large, std::uint64_t shown_size) {
  append_u16(text, large ? kVersionZip64 : kVersion);
  append_u16(text, flags_of(record.name));
  append_u16(text, zip_format::kMethodStored);
  append_u16(text, 0);  // time
  append_u16(text, kDosDate);
  append_u32(text, record.crc32);
  append_u32(text, shown_size);
  append_u32(text, shown_size);
  append_u16(text, record.name.size());
}

std::string local_header(const Record& record, std::size_t alignment, std::uint64_t zip64_from) {
  const bool large = record.size >= zip64_from;
  std::string extra;
  if (large) {
    append_u16(extra, zip_format::kZip64Extra);
    append_u16(extra, 16);
    append_u64(extra, record.size);
    append_u64(extra, record.size);
  }
  const std::uint64_t content_at = record.offset + zip_format::kLocalHeaderBytes + record.name.size() + extra.size();
  if (content_at % alignment != 0) {
    const std::uint64_t padding = (alignment - (content_at + 4) % alignment) % alignment;
    append_u16(extra, zip_format::kPaddingExtra);
    append_u16(extra, padding);
    extra.append(padding, '\0');
  }
  std::string text;
  append_u32(text, zip_format::kLocalHeader);
  append_shared_fields(text, record, large, large ? zip_format::kIn64Bits32 : record.size);
  append_u16(text, extra.size());
  return text + record.name + extra;
}

std::string directory_entry(const Record& record, std::uint64_t zip64_from) {
  const bool large_size = record.size >= zip64_from;
  const bool large_offset = record.offset >= zip64_from;
  std::string extra;
  if (large_size || large_offset) {
    append_u16(extra, zip_format::kZip64Extra);
    append_u16(extra, (large_size ? 16U : 0U) + (large_offset ? 8U : 0U));
    if (large_size) append_u64(extra, record.size);
    if (large_size) append_u64(extra, record.size);
    if (large_offset) append_u64(extra, record.offset);
  }
  const bool large = large_size || large_offset;
  std::string text;
  append_u32(text, zip_format::kDirectoryHeader);
  append_u16(text, large ? kVersionZip64 : kVersion);  // made by
  append_shared_fields(text, record, large, large_size ? zip_format::kIn64Bits32 : record.size);
  append_u16(text, extra.size());
  append_u16(text, 0);  // comment
  append_u16(text, 0);  // disk
  append_u16(text, 0);  // internal attributes
  append_u32(text, 0);  // external attributes
  append_u32(text, large_offset ? zip_format::kIn64Bits32 : record.offset);
  return text + record.name + extra;
}

std::string end_records(std::uint64_t count, std::uint64_t size, std::uint64_t offset, std::uint64_t zip64_from) {
  const bool large = count >= zip_format::kIn64Bits16 || size >= zip64_from || offset >= zip64_from;
  std::string text;
  if (large) {
    append_u32(text, zip_format::kZip64EndRecord);
    append_u64(text, zip_format::kZip64EndRecordBytes - 12);
    append_u16(text, kVersionZip64);
    append_u16(text, kVersionZip64);
    append_u32(text, 0);
    append_u32(text, 0);
    append_u64(text, count);
    append_u64(text, count);
    append_u64(text, size);
    append_u64(text, offset);
    append_u32(text, zip_format::kZip64Locator);
    append_u32(text, 0);
    append_u64(text, offset + size);
    append_u32(text, 1);
  }
  append_u32(text, zip_format::kEndRecord);
  append_u16(text, 0);
  append_u16(text, 0);
  append_u16(text, large ? zip_format::kIn64Bits16 : count);
  append_u16(text, large ? zip_format::kIn64Bits16 : count);
  append_u32(text, large ? zip_format::kIn64Bits32 : size);
  append_u32(text, large ? zip_format::kIn64Bits32 : offset);
  append_u16(text, 0);
  return text;
}

}  // namespace

void ZipBuilder::add(std::string name, std::span<const std::byte> content) {
  items_.push_back({std::move(name), {content}});
}

void ZipBuilder::add_pieces(std::string name, std::vector<std::span<const std::byte>> pieces) {
  items_.push_back({std::move(name), std::move(pieces)});
}

std::uint64_t ZipBuilder::Item::size() const {
  std::uint64_t total = 0;
  for (const auto piece : pieces) total += piece.size();
  return total;
}

Status ZipBuilder::check() const {
  if (alignment_ == 0 || alignment_ > kMaxAlignment) {
    return {StatusCode::kInvalidArgument,
            fmt::format("zip entries cannot be aligned to {} bytes; use 1 to {}", alignment_, kMaxAlignment)};
  }
  std::set<std::string_view> names;
  for (const Item& item : items_) {
    if (const std::string_view fault = zip_format::find_name_fault(item.name); !fault.empty()) {
      return {StatusCode::kInvalidArgument,
              fmt::format("the zip entry name \"{}\" {}", printable(item.name, 200), fault)};
    }
    if (item.name.size() > std::numeric_limits<std::uint16_t>::max()) {
      return {StatusCode::kInvalidArgument, fmt::format("a zip entry name has {} bytes", item.name.size())};
    }
    if (item.name.back() == '/' && item.size() != 0) {
      return {StatusCode::kInvalidArgument, fmt::format("the zip folder {} has content", printable(item.name, 200))};
    }
    if (!names.insert(item.name).second) {
      return {StatusCode::kInvalidArgument, fmt::format("two zip entries are named {}", printable(item.name, 200))};
    }
  }
  return {};
}

Status ZipBuilder::emit(const std::function<Status(std::string_view)>& sink) const {
  KPT_RETURN_IF_ERROR(check());
  std::uint64_t position = 0;
  const auto put = [&](std::string_view text) {
    position += text.size();
    return sink(text);
  };
  std::string directory;
  for (const Item& item : items_) {
    uLong crc = 0;
    for (const auto piece : item.pieces) {
      // With a null address, as empty pieces may have, zlib would start over.
      if (!piece.empty()) crc = ::crc32_z(crc, reinterpret_cast<const Bytef*>(piece.data()), piece.size());
    }
    const Record record{item.name, item.size(), position, static_cast<std::uint32_t>(crc)};
    KPT_RETURN_IF_ERROR(put(local_header(record, alignment_, zip64_from_)));
    for (const auto piece : item.pieces) {
      KPT_RETURN_IF_ERROR(put({reinterpret_cast<const char*>(piece.data()), piece.size()}));
    }
    directory += directory_entry(record, zip64_from_);
  }
  const std::uint64_t offset = position;
  KPT_RETURN_IF_ERROR(put(directory));
  return put(end_records(items_.size(), directory.size(), offset, zip64_from_));
}

Result<std::string> ZipBuilder::serialize() const {
  std::string text;
  KPT_RETURN_IF_ERROR(emit([&](std::string_view part) {
    text += part;
    return Status();
  }));
  return text;
}

Status ZipBuilder::write_file(const std::filesystem::path& path) const {
  KPT_RETURN_IF_ERROR(check());
  KPT_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(path));
  KPT_RETURN_IF_ERROR(emit([&](std::string_view part) { return file.write(part); }));
  return file.commit();
}

}  // namespace kpt
