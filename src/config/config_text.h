// The configuration as text, and the page that documents its options.
#pragma once

#include <string>

#include "config/config.h"

namespace kpt {

// Both can be loaded as a configuration file and give equal values. The YAML form carries each origin as a comment.
std::string to_yaml(const Config& config);
std::string to_json(const Config& config);

// docs/reference/options.md, made from the option table.
std::string options_markdown();

}  // namespace kpt
