#include "base/text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

namespace kpt {

std::string_view trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n\v\f";
  const auto first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const auto end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
    if (text.empty()) parts.emplace_back();
  }
  return parts;
}

std::string join(std::span<const std::string> parts, std::string_view separator) {
  return fmt::format("{}", fmt::join(parts.begin(), parts.end(), separator));
}

std::string to_lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

namespace {

template <typename Number>
std::optional<Number> parse_whole(std::string_view text, int base) {
  if (base == 16 && (text.starts_with("0x") || text.starts_with("0X"))) {
    text.remove_prefix(2);
    if (text.starts_with('-')) return std::nullopt;
  }
  Number number{};
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number, base);
  if (error != std::errc() || rest != end || text.empty()) return std::nullopt;
  return number;
}

// ASCII and C1 controls, and the two separators that Unicode counts as line breaks.
bool is_control(std::string_view character) {
  if (character.size() == 1) return static_cast<unsigned char>(character[0]) < 0x20 || character[0] == 0x7f;
  return (character >= "\u0080" && character <= "\u009f") || character == "\u2028" || character == "\u2029";
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t substitute = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({substitute, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

}  // namespace

std::size_t utf8_length(std::string_view text) {
  const auto within = [text](std::size_t i, unsigned low, unsigned high) {
    return i < text.size() && static_cast<unsigned char>(text[i]) >= low && static_cast<unsigned char>(text[i]) <= high;
  };
  if (within(0, 0x00, 0x7f)) return 1;
  if (within(0, 0xc2, 0xdf)) return within(1, 0x80, 0xbf) ? 2 : 0;
  if (within(0, 0xe0, 0xef)) {
    const unsigned low = within(0, 0xe0, 0xe0) ? 0xa0 : 0x80;
    const unsigned high = within(0, 0xed, 0xed) ? 0x9f : 0xbf;
    return within(1, low, high) && within(2, 0x80, 0xbf) ? 3 : 0;
  }
  if (within(0, 0xf0, 0xf4)) {
    const unsigned low = within(0, 0xf0, 0xf0) ? 0x90 : 0x80;
    const unsigned high = within(0, 0xf4, 0xf4) ? 0x8f : 0xbf;
    return within(1, low, high) && within(2, 0x80, 0xbf) && within(3, 0x80, 0xbf) ? 4 : 0;
  }
  return 0;
}

std::optional<std::int64_t> parse_int(std::string_view text, int base) { return parse_whole<std::int64_t>(text, base); }
std::optional<std::uint64_t> parse_uint(std::string_view text, int base) {
  return parse_whole<std::uint64_t>(text, base);
}

std::optional<double> parse_double(std::string_view text) {
  double number{};
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || rest != end || text.empty() || !std::isfinite(number)) return std::nullopt;
  return number;
}

std::string printable(std::string_view text, std::size_t max_bytes) {
  std::string shown;
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    std::string_view character = length == 0 ? "\ufffd" : text.substr(0, length);
    if (is_control(character)) character = " ";
    if (character.size() > max_bytes - shown.size()) return shown + "…";
    shown += character;
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return shown;
}

std::string format_bytes(std::uint64_t bytes) {
  constexpr std::array<std::string_view, 7> kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  auto amount = static_cast<double>(bytes);
  std::size_t unit = 0;
  // From 1023.95 on one decimal shows "1024.0", which is 1.0 of the next unit; bytes are shown exactly.
  while (amount >= (unit == 0 ? 1024.0 : 1023.95) && unit + 1 < kUnits.size()) {
    amount /= 1024.0;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", amount, kUnits[unit]);
}

std::optional<std::string> find_nearest(std::string_view name, std::span<const std::string> candidates) {
  // A key this long is not a slip of the finger, and the distance table is quadratic.
  constexpr std::size_t kMaxLength = 200;
  if (name.size() > kMaxLength) return std::nullopt;
  std::optional<std::string> best;
  std::size_t best_distance = 0;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(name, candidate);
    const std::size_t limit = std::max<std::size_t>(1, std::max(name.size(), candidate.size()) / 3);
    if (distance <= limit && (!best || distance < best_distance)) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace kpt
