// Reads the text forms of this module from left to right: words, numbers, quoted text and signs, and writes the same.
// Where something is not there the scanner stays where it was. Spaces, line breaks and "# …" comments separate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace kpt::ir {

class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  void skip_space();
  bool at_end();
  // The next character after spaces; '\0' at the end.
  char peek();
  // Whether `sign` comes next; accept() also passes it.
  bool starts_with(std::string_view sign);
  bool accept(std::string_view sign);
  // Letters, digits, '_' and the characters of `also`, not starting with a digit. Empty when none comes next.
  std::string_view peek_word(std::string_view also = "");
  std::string_view word(std::string_view also = "");
  bool accept_word(std::string_view word);
  // "…" as quote() writes it. Nothing when no valid one comes next.
  std::optional<std::string> quoted();
  // "12", "-1.5e-07", "inf", "-inf", "nan". An integer has no '.' and no 'e'. Nothing when it does not fit.
  std::optional<std::variant<std::int64_t, double>> number();

  std::size_t position() const { return position_; }
  void go_to(std::size_t position) { position_ = position; }
  std::string_view text() const { return text_; }
  // The line of what was read last, from 1.
  std::size_t line() const;

 private:
  std::string_view text_;
  std::size_t position_ = 0;
};

// Letters, digits and '_', not starting with a digit.
bool is_word(std::string_view text);
// In double quotes; quotes, backslashes, control characters and bytes outside ASCII are escaped.
std::string quote(std::string_view text);
// The shortest text that gives the same double back, never that of an integer.
std::string format_double(double value);

}  // namespace kpt::ir
