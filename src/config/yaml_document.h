// YAML text as a small tree with line numbers. The only file that knows yaml-cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kpt {

struct YamlNode {
  enum class Kind : std::uint8_t { kNull, kScalar, kSequence, kMap };

  Kind kind = Kind::kNull;
  bool quoted = false;  // a scalar in quotes: text, whatever it looks like
  int line = 1;         // from 1
  std::string text;     // of a scalar
  // Items of a sequence, or key, value, key, value, … of a map.
  std::vector<YamlNode> children;
};

struct YamlError {
  int line;  // from 1, or 0 when it concerns the whole text
  std::string sentence;
};

struct YamlDocument {
  std::optional<YamlNode> root;  // nothing for an empty text, or after an error
  std::optional<YamlError> error;
};

// Parses untrusted text: UTF-8 without control characters, at most 8 levels deep, at most 10000 nodes, one document, no
// anchors, aliases or tags. Never throws but for lack of memory.
YamlDocument parse_yaml(std::string_view text);

}  // namespace kpt
