// The configuration file: YAML, and JSON as the part of YAML it is.
//
//   preset: development        # optional
//   log:                       # options nested …
//     level: info
//   probe.timeout_ms: 20000    # … or dotted
//
// The text is not trusted. Its size, depth and number of entries are bounded; anchors, aliases, tags, several
// documents, repeated keys and control characters are refused. Every problem of a file is reported, not only the first;
// after a YAML syntax error nothing more can be said.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/option_value.h"
#include "kpt/status.h"

namespace kpt {

inline constexpr std::size_t kMaxConfigBytes = std::size_t{1} << 20;

// One thing that is wrong: where, and a sentence that names the key, what was expected and the nearest valid name.
struct ConfigProblem {
  std::string place;  // "kpt.yaml:3", "kpt.yaml", "environment variable KPT_LOG", "--set log.level"
  std::string sentence;
  std::string to_string() const { return place + ": " + sentence; }
};

// All problems as one kConfiguration failure: the first is the sentence, the further ones are details "problem 2",
// "problem 3", …. `problems` must not be empty.
Status to_status(const std::vector<ConfigProblem>& problems);

struct FileSetting {
  OptionId option;
  OptionValue value;
  int line;  // from 1
};

struct ConfigFile {
  std::optional<std::string> preset;  // a name that exists
  int preset_line = 0;
  std::vector<FileSetting> settings;  // each option at most once
  std::vector<ConfigProblem> problems;
};

// `file_name` is used in problems only.
ConfigFile parse_config_text(std::string_view text, std::string_view file_name);

// Reads and parses. A file that cannot be read, or is longer than kMaxConfigBytes, is a problem like any other.
ConfigFile read_config_file(const std::filesystem::path& path);

// "did you mean …?" among the presets, or which there are.
std::string unknown_preset_sentence(std::string_view name);
// The same for an option's name.
std::string unknown_option_sentence(std::string_view name);

}  // namespace kpt
