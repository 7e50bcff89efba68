// Checks and quoting of text that a user wrote, so that it can be judged and shown safely.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace kpt {

// Offset of the first byte that is not part of a well-formed UTF-8 character (overlong forms and surrogates are not).
std::optional<std::size_t> find_invalid_utf8(std::string_view text);

// The text in double quotes on one line: control characters are escaped, bytes that are not UTF-8 become \x.., and
// after about `max_bytes` it is cut with "…". For messages, not for reading back.
std::string quoted_excerpt(std::string_view text, std::size_t max_bytes = 60);

// The same without quotes and without a limit, for file names in messages.
std::string one_line(std::string_view text);

}  // namespace kpt
