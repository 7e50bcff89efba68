// Flags that name a model and its sizes, shared by the commands that take one.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "kpt/status.h"

namespace kpt::cli {

// "s0=4" → {"s0", 4}. Fails with kInvalidArgument, naming the text.
Result<std::map<std::string, std::int64_t, std::less<>>> parse_sizes(const std::vector<std::string>& texts);

// "name=path" → both parts; "path" → an empty name. A path that contains '=' needs a name before it.
std::pair<std::string, std::string> split_assignment(const std::string& text);

}  // namespace kpt::cli
