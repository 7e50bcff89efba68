#include "config/text_check.h"

#include <fmt/format.h>

namespace kpt {
namespace {

unsigned byte_at(std::string_view text, std::size_t at) { return static_cast<unsigned char>(text[at]); }

// Length of the well-formed UTF-8 character at `at`, or 0. The second byte's bounds exclude overlong forms, surrogates
// and what lies beyond U+10FFFF (table 3-7 of the Unicode standard).
std::size_t utf8_length(std::string_view text, std::size_t at) {
  const unsigned lead = byte_at(text, at);
  if (lead < 0x80) return 1;
  std::size_t length = 0;
  unsigned low = 0x80;
  unsigned high = 0xBF;
  if (lead >= 0xC2 && lead <= 0xDF) {
    length = 2;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    length = 3;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  }
  if (length == 0 || at + length > text.size()) return 0;
  if (byte_at(text, at + 1) < low || byte_at(text, at + 1) > high) return 0;
  for (std::size_t i = 2; i < length; ++i) {
    if (byte_at(text, at + i) < 0x80 || byte_at(text, at + i) > 0xBF) return 0;
  }
  return length;
}

// Appends the character at `at` as it may be shown and returns its length in `text`.
std::size_t append_shown(std::string& out, std::string_view text, std::size_t at) {
  const std::size_t length = utf8_length(text, at);
  const unsigned lead = byte_at(text, at);
  // U+0080 to U+009F steer terminals just as the first 32 characters do.
  const bool second_control_block = length == 2 && lead == 0xC2 && byte_at(text, at + 1) < 0xA0;
  if (length == 0 || lead < 0x20 || lead == 0x7F) {
    if (lead == '\n') {
      out += "\\n";
    } else if (lead == '\t') {
      out += "\\t";
    } else {
      out += fmt::format("\\x{:02x}", lead);
    }
    return 1;
  }
  if (second_control_block) {
    out += fmt::format("\\u{:04x}", byte_at(text, at + 1));
  } else {
    out += text.substr(at, length);
  }
  return length;
}

}  // namespace

std::optional<std::size_t> find_invalid_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_length(text, at);
    if (length == 0) return at;
    at += length;
  }
  return std::nullopt;
}

std::string quoted_excerpt(std::string_view text, std::size_t max_bytes) {
  std::string out = "\"";
  std::size_t at = 0;
  while (at < text.size() && out.size() <= max_bytes) at += append_shown(out, text, at);
  out += at < text.size() ? "…\"" : "\"";
  return out;
}

std::string one_line(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) at += append_shown(out, text, at);
  return out;
}

}  // namespace kpt
