#include "config/text_check.h"

#include <fmt/format.h>

#include "base/text.h"

namespace kpt {
namespace {

unsigned byte_at(std::string_view text, std::size_t at) { return static_cast<unsigned char>(text[at]); }

// Appends the character at `at` as it may be shown and returns its length in `text`.
std::size_t append_shown(std::string& out, std::string_view text, std::size_t at) {
  const std::size_t length = utf8_length(text.substr(at));
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
    const std::size_t length = utf8_length(text.substr(at));
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
