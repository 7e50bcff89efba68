#include "compile_cache/entry_format.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/crc32c.h"
#include "base/little_endian.h"

namespace kpt::compile_cache {
namespace {

constexpr std::string_view kEntryMagic = "kptcache";
constexpr std::size_t kVersionAt = 8;
constexpr std::size_t kKindBytesAt = 12;
constexpr std::size_t kPayloadBytesAt = 16;
constexpr std::size_t kPayloadCrcAt = 24;
constexpr std::size_t kDigestAt = 28;
constexpr std::size_t kKindAt = kDigestAt + kDigestDigits;

template <typename T>
T number_at(std::string_view text, std::size_t at) {
  return load_little_endian<T>(reinterpret_cast<const std::byte*>(text.data()) + at);
}

Status corrupt(std::string message) { return {StatusCode::kCorruptData, std::move(message)}; }

}  // namespace

bool is_digest(std::string_view text) {
  return text.size() == kDigestDigits && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

bool is_kind(std::string_view text) {
  constexpr std::string_view kAllowed = "abcdefghijklmnopqrstuvwxyz0123456789_-.";
  return !text.empty() && text.size() <= kMaxKindBytes && text.find_first_not_of(kAllowed) == std::string_view::npos;
}

std::string print_header(std::string_view digest, std::string_view kind, std::string_view payload) {
  std::string text(kEntryMagic);
  append_little_endian(text, kEntryVersion);
  append_little_endian(text, static_cast<std::uint32_t>(kind.size()));
  append_little_endian(text, std::uint64_t{payload.size()});
  append_little_endian(text, crc32c(payload));
  text += digest;
  text += kind;
  append_little_endian(text, crc32c(text));
  return text;
}

Result<EntryHeader> read_header(std::string_view start, std::uint64_t file_bytes) {
  if (start.size() < kKindAt || !start.starts_with(kEntryMagic)) return corrupt("it is no cache entry or cut short");
  const auto version = number_at<std::uint32_t>(start, kVersionAt);
  if (version != kEntryVersion) return corrupt(fmt::format("its format version is {}, not {}", version, kEntryVersion));
  const auto kind_bytes = number_at<std::uint32_t>(start, kKindBytesAt);
  if (kind_bytes > kMaxKindBytes || start.size() < kKindAt + kind_bytes + 4) return corrupt("its header is cut short");
  const std::size_t checked = kKindAt + kind_bytes;
  if (number_at<std::uint32_t>(start, checked) != crc32c(start.substr(0, checked))) {
    return corrupt("its header does not fit its checksum");
  }
  EntryHeader header;
  header.digest = start.substr(kDigestAt, kDigestDigits);
  header.kind = start.substr(kKindAt, kind_bytes);
  header.payload_bytes = number_at<std::uint64_t>(start, kPayloadBytesAt);
  header.payload_crc32c = number_at<std::uint32_t>(start, kPayloadCrcAt);
  header.header_bytes = checked + 4;
  if (!is_digest(header.digest) || !is_kind(header.kind)) return corrupt("its header holds no key or kind");
  if (file_bytes < header.header_bytes || file_bytes - header.header_bytes != header.payload_bytes) {
    return corrupt(fmt::format("it has {} bytes, its header speaks of {} after {}", file_bytes, header.payload_bytes,
                               header.header_bytes));
  }
  return header;
}

Status check_payload(const EntryHeader& header, std::string_view payload) {
  if (payload.size() == header.payload_bytes && crc32c(payload) == header.payload_crc32c) return {};
  return corrupt("its content does not fit its checksum");
}

}  // namespace kpt::compile_cache
