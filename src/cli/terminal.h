// Plain and coloured text for people: cells, tables, states.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kpt::cli {

enum class Color { kNone, kGreen, kYellow, kRed, kBold, kDim };

// `text` in that colour, or as it is when `enabled` is false.
std::string paint(std::string_view text, Color color, bool enabled);

// Number of columns a UTF-8 text takes, counting code points; colour sequences count as nothing.
std::size_t display_width(std::string_view text);

// Rows with aligned columns, two spaces between them, no trailing blanks. The last column is wrapped at `max_width`
// columns of the whole line (0: never), continuing below its own start.
std::string format_table(const std::vector<std::vector<std::string>>& rows, std::size_t max_width = 0);

}  // namespace kpt::cli
