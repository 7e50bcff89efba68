// Small pure functions on text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kpt {

std::string_view trim(std::string_view text);
// Splits at each `separator`; "a,,b" gives three parts, "" gives none.
std::vector<std::string_view> split(std::string_view text, char separator);
std::string join(std::span<const std::string> parts, std::string_view separator);
std::string to_lower(std::string_view text);

// A whole decimal (or, with base 16, hexadecimal with or without 0x) number; nothing if any other character is there.
std::optional<std::int64_t> parse_int(std::string_view text, int base = 10);
std::optional<std::uint64_t> parse_uint(std::string_view text, int base = 10);
// Finite numbers only: "nan" and "inf" would slip through every range check.
std::optional<double> parse_double(std::string_view text);

// Length of the UTF-8 character at the start of `text`, 0 if there is none (RFC 3629: no overlong forms, no surrogates,
// nothing above U+10FFFF).
std::size_t utf8_length(std::string_view text);

// Foreign text made safe to show as one line: line breaks and other control characters become spaces, bytes that are
// not UTF-8 become U+FFFD, and what lies beyond `max_bytes` becomes "…".
std::string printable(std::string_view text, std::size_t max_bytes = std::string_view::npos);

// "139.8 GiB", "512 B": binary units, one decimal from KiB on.
std::string format_bytes(std::uint64_t bytes);

// The candidate with the smallest edit distance to `name`, if it is near enough to be a slip of the finger
// (distance at most a third of the longer length, and at least 1).
std::optional<std::string> find_nearest(std::string_view name, std::span<const std::string> candidates);

}  // namespace kpt
