// Orders of the fake PJRT plugin: the variable FAKE_PJRT, parts separated by ';'. Read anew each time.
#pragma once

#include <cstdlib>
#include <optional>
#include <sstream>
#include <string>

namespace fake_pjrt {

// What follows `words` and a space in the first part that begins with them; empty when nothing does.
inline std::optional<std::string> rest_of_order(const std::string& words) {
  const char* orders = std::getenv("FAKE_PJRT");  // NOLINT(concurrency-mt-unsafe): tests set it between calls
  std::istringstream parts(orders != nullptr ? orders : "");
  std::string part;
  while (std::getline(parts, part, ';')) {
    part.erase(0, part.find_first_not_of(' '));
    if (part == words) return "";
    if (part.starts_with(words + " ")) return part.substr(words.size() + 1);
  }
  return std::nullopt;
}

// Whether a part is exactly `verb name`, or `verb` alone for an empty name.
inline bool find_order(const std::string& verb, const std::string& name) {
  return rest_of_order(name.empty() ? verb : verb + " " + name) == "";
}

}  // namespace fake_pjrt
