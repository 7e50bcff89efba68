// The configuration as text, and the page that documents its options.
#pragma once

#include <string>

#include "config/config.h"

namespace kpt {

// Both can be loaded as a configuration file and give equal values. Automatic values are not written, since loading
// them would make them the user's choice: the machine that loads the file finds its own. The YAML form carries each
// origin as a comment, and automatic values in comments.
std::string to_yaml(const Config& config);
std::string to_json(const Config& config);

// Every value, automatic ones too, as JSON.
std::string values_json(const Config& config);

// docs/reference/options.md, made from the option table; the same as JSON.
std::string options_markdown();
std::string options_json();

}  // namespace kpt
