// The file of one cache entry: a header with its own checksum, then the payload.
//
//   "kptcache" │ u32 format version │ u32 bytes of kind │ u64 bytes of payload │ u32 CRC-32C of payload │
//   64 digits of the key │ kind │ u32 CRC-32C of all before │ payload                                  (little endian)
//
// Files may have been damaged or put there by anybody: nothing is allocated by a size that a header merely claims.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "kpt/status.h"

namespace kpt::compile_cache {

inline constexpr std::uint32_t kEntryVersion = 1;
inline constexpr std::size_t kDigestDigits = 64;
inline constexpr std::size_t kMaxKindBytes = 64;
inline constexpr std::size_t kMaxHeaderBytes = 8 + 4 + 4 + 8 + 4 + kDigestDigits + kMaxKindBytes + 4;

struct EntryHeader {
  std::string digest;
  std::string kind;
  std::uint64_t payload_bytes = 0;
  std::uint32_t payload_crc32c = 0;
  std::size_t header_bytes = 0;
};

// 64 small hexadecimal digits.
bool is_digest(std::string_view text);
// 1 to kMaxKindBytes small letters, digits, '_', '-' or '.'.
bool is_kind(std::string_view text);

std::string print_header(std::string_view digest, std::string_view kind, std::string_view payload);

// `start`: the first kMaxHeaderBytes of a file of `file_bytes`, or all of it. Fails with kCorruptData in one clause.
Result<EntryHeader> read_header(std::string_view start, std::uint64_t file_bytes);

// kCorruptData when the payload is not the header's.
Status check_payload(const EntryHeader& header, std::string_view payload);

}  // namespace kpt::compile_cache
