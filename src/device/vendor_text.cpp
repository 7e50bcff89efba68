#include "device/vendor_text.h"

#include <algorithm>

#include "base/text.h"

namespace kpt {

std::string printable_text(std::span<const char> buffer) {
  constexpr std::size_t kMaxLength = 256;
  const auto end = std::ranges::find(buffer, '\0');
  std::string text(buffer.begin(), end);
  text = std::string(trim(text).substr(0, kMaxLength));
  std::ranges::replace_if(text, [](char c) { return c < ' ' || c > '~'; }, '?');
  return text;
}

}  // namespace kpt
