// The parts of the zip format that reading and writing share: signatures, sizes of the fixed records, rules for names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace kpt::zip_format {

inline constexpr std::uint32_t kLocalHeader = 0x04034b50;
inline constexpr std::uint32_t kDirectoryHeader = 0x02014b50;
inline constexpr std::uint32_t kEndRecord = 0x06054b50;
inline constexpr std::uint32_t kZip64EndRecord = 0x06064b50;
inline constexpr std::uint32_t kZip64Locator = 0x07064b50;

// Bytes of each record without its variable parts.
inline constexpr std::size_t kLocalHeaderBytes = 30;
inline constexpr std::size_t kDirectoryHeaderBytes = 46;
inline constexpr std::size_t kEndRecordBytes = 22;
inline constexpr std::size_t kZip64EndRecordBytes = 56;
inline constexpr std::size_t kZip64LocatorBytes = 20;

// A field with this value has its number in the ZIP64 record instead.
inline constexpr std::uint16_t kIn64Bits16 = 0xffff;
inline constexpr std::uint32_t kIn64Bits32 = 0xffffffff;

inline constexpr std::uint16_t kZip64Extra = 0x0001;
inline constexpr std::uint16_t kPaddingExtra = 0x4246;  // "FB", as PyTorch pads entries

inline constexpr std::uint16_t kFlagDataDescriptor = 1U << 3U;
inline constexpr std::uint16_t kFlagUtf8 = 1U << 11U;
// Encryption (old, strong, masked headers) and patches.
inline constexpr std::uint16_t kFlagsNotSupported = (1U << 0U) | (1U << 5U) | (1U << 6U) | (1U << 13U);

inline constexpr std::uint16_t kMethodStored = 0;
inline constexpr std::uint16_t kMethodDeflated = 8;

// What is wrong with an entry's name ("is absolute"), or empty.
std::string_view find_name_fault(std::string_view name);

}  // namespace kpt::zip_format
