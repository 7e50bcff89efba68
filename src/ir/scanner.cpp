#include "ir/scanner.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <system_error>

namespace kpt::ir {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

constexpr std::string_view kHexDigits = "0123456789abcdef";

std::optional<unsigned> hex_value(char c) {
  const std::size_t digit = kHexDigits.find(c);
  if (c == '\0' || digit == std::string_view::npos) return std::nullopt;
  return static_cast<unsigned>(digit);
}

// The end of the digits that start at `position`.
std::size_t skip_digits(std::string_view text, std::size_t position) {
  while (position < text.size() && is_digit(text[position])) ++position;
  return position;
}

}  // namespace

void Scanner::skip_space() {
  while (position_ < text_.size()) {
    const char c = text_[position_];
    if (c == '#') {
      position_ = std::min(text_.find('\n', position_), text_.size());
    } else if (c == ' ' || c == '\n' || c == '\t' || c == '\r') {
      ++position_;
    } else {
      return;
    }
  }
}

bool Scanner::at_end() {
  skip_space();
  return position_ == text_.size();
}

char Scanner::peek() { return at_end() ? '\0' : text_[position_]; }

bool Scanner::starts_with(std::string_view sign) {
  skip_space();
  return text_.substr(position_).starts_with(sign);
}

bool Scanner::accept(std::string_view sign) {
  if (!starts_with(sign)) return false;
  position_ += sign.size();
  return true;
}

std::string_view Scanner::peek_word(std::string_view also) {
  skip_space();
  std::size_t end = position_;
  while (end < text_.size() && (is_letter(text_[end]) || (end > position_ && is_digit(text_[end])) ||
                                also.find(text_[end]) != std::string_view::npos)) {
    ++end;
  }
  return text_.substr(position_, end - position_);
}

std::string_view Scanner::word(std::string_view also) {
  const std::string_view found = peek_word(also);
  position_ += found.size();
  return found;
}

bool Scanner::accept_word(std::string_view word) {
  if (peek_word() != word) return false;
  position_ += word.size();
  return true;
}

std::optional<std::string> Scanner::quoted() {
  skip_space();
  if (position_ == text_.size() || text_[position_] != '"') return std::nullopt;
  std::string content;
  std::size_t at = position_ + 1;
  const auto next = [&] { return at < text_.size() ? text_[at++] : '\0'; };
  while (true) {
    const char c = next();
    if (c == '"') break;
    if (c != '\\') {
      if (static_cast<unsigned char>(c) < 0x20) return std::nullopt;  // also the end of the text
      content += c;
      continue;
    }
    switch (next()) {
      case 'n': content += '\n'; break;
      case 't': content += '\t'; break;
      case '"': content += '"'; break;
      case '\\': content += '\\'; break;
      case 'x': {
        const auto high = hex_value(next());
        const auto low = hex_value(next());
        if (!high || !low) return std::nullopt;
        content += static_cast<char>(*high * 16 + *low);
        break;
      }
      default: return std::nullopt;
    }
  }
  position_ = at;
  return content;
}

std::optional<std::variant<std::int64_t, double>> Scanner::number() {
  skip_space();
  const std::size_t start = position_;
  const bool negative = start < text_.size() && text_[start] == '-';
  std::size_t end = start + (negative ? 1 : 0);
  const std::string_view rest = text_.substr(end);
  if (!rest.empty() && is_letter(rest[0])) {
    Scanner after(rest);
    const std::string_view word = after.word();
    if (word != "inf" && (word != "nan" || negative)) return std::nullopt;
    position_ = end + word.size();
    if (word == "nan") return std::numeric_limits<double>::quiet_NaN();
    return negative ? -HUGE_VAL : HUGE_VAL;
  }
  if (rest.empty() || !is_digit(rest[0])) return std::nullopt;
  end = skip_digits(text_, end);
  const std::size_t whole_end = end;
  // "2..5" is a range, so a point belongs to the number only when a digit follows.
  if (end + 1 < text_.size() && text_[end] == '.' && is_digit(text_[end + 1])) end = skip_digits(text_, end + 1);
  if (end < text_.size() && text_[end] == 'e') {
    const std::size_t sign = end + 1 < text_.size() && (text_[end + 1] == '-' || text_[end + 1] == '+') ? 2 : 1;
    const std::size_t exponent_end = skip_digits(text_, end + sign);
    if (exponent_end > end + sign) end = exponent_end;
  }
  const auto convert = [&](auto value) -> std::optional<std::variant<std::int64_t, double>> {
    const auto [stop, error] = std::from_chars(text_.data() + start, text_.data() + end, value);
    if (error != std::errc{} || stop != text_.data() + end) return std::nullopt;
    position_ = end;
    return value;
  };
  return end == whole_end ? convert(std::int64_t{}) : convert(double{});
}

std::size_t Scanner::line() const {
  const std::size_t last = text_.substr(0, position_).find_last_not_of(" \n\t\r");
  if (last == std::string_view::npos) return 1;
  const std::string_view before = text_.substr(0, last);
  return 1 + static_cast<std::size_t>(std::count(before.begin(), before.end(), '\n'));
}

bool is_word(std::string_view text) {
  if (text.empty() || !is_letter(text[0])) return false;
  return std::all_of(text.begin(), text.end(), [](char c) { return is_letter(c) || is_digit(c); });
}

std::string quote(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (c == '\n') {
      quoted += "\\n";
    } else if (c == '\t') {
      quoted += "\\t";
    } else if (byte < 0x20 || byte >= 0x7f) {
      quoted += "\\x";
      quoted += kHexDigits[byte / 16];
      quoted += kHexDigits[byte % 16];
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

std::string format_double(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::array<char, 40> room{};
  const auto result = std::to_chars(room.data(), room.data() + room.size(), value);
  std::string text(room.data(), result.ptr);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

}  // namespace kpt::ir
