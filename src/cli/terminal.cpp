#include "cli/terminal.h"

#include <algorithm>

#include "base/text.h"

namespace kpt::cli {
namespace {

std::string_view sequence(Color color) {
  switch (color) {
    case Color::kGreen: return "\x1b[32m";
    case Color::kYellow: return "\x1b[33m";
    case Color::kRed: return "\x1b[31m";
    case Color::kBold: return "\x1b[1m";
    case Color::kDim: return "\x1b[2m";
    case Color::kNone: break;
  }
  return "";
}

// Breaks at spaces so that no line is wider than `width`; a word longer than that stands alone.
std::vector<std::string> wrap(std::string_view text, std::size_t width) {
  std::vector<std::string> lines(1);
  for (const std::string_view word : split(text, ' ')) {
    std::string& line = lines.back();
    const std::size_t needed = display_width(line) + (line.empty() ? 0 : 1) + display_width(word);
    if (!line.empty() && needed > width) {
      lines.emplace_back(word);
    } else {
      if (!line.empty()) line += ' ';
      line += word;
    }
  }
  return lines;
}

}  // namespace

std::string paint(std::string_view text, Color color, bool enabled) {
  if (!enabled || color == Color::kNone || text.empty()) return std::string(text);
  return std::string(sequence(color)) + std::string(text) + "\x1b[0m";
}

std::size_t display_width(std::string_view text) {
  std::size_t width = 0;
  bool in_sequence = false;
  for (const char c : text) {
    if (c == '\x1b') {
      in_sequence = true;
    } else if (in_sequence) {
      in_sequence = c != 'm';
    } else if ((static_cast<unsigned char>(c) & 0xc0U) != 0x80U) {
      ++width;  // not a UTF-8 continuation byte
    }
  }
  return width;
}

std::string format_table(const std::vector<std::vector<std::string>>& rows, std::size_t max_width) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i + 1 < row.size(); ++i) widths[i] = std::max(widths[i], display_width(row[i]));
  }
  constexpr std::size_t kMinLastColumn = 20;
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i + 1 < row.size(); ++i) {
      line += row[i] + std::string(widths[i] - display_width(row[i]) + 2, ' ');
    }
    if (!row.empty()) {
      const std::size_t start = display_width(line);
      const bool fits =
          max_width == 0 || start + display_width(row.back()) <= max_width || start + kMinLastColumn > max_width;
      const std::vector<std::string> lines = fits ? std::vector{row.back()} : wrap(row.back(), max_width - start);
      for (std::size_t i = 0; i < lines.size(); ++i) line += (i == 0 ? "" : "\n" + std::string(start, ' ')) + lines[i];
    }
    while (line.ends_with(' ')) line.pop_back();
    text += line + "\n";
  }
  return text;
}

}  // namespace kpt::cli
