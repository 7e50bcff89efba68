// The user's folders, after the XDG base directory rules.
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>

#include "base/environment.h"

namespace kpt {

// The folder that `variable` names if that is an absolute path (others are to be ignored), else $HOME/<below_home>;
// nothing without an absolute HOME.
std::optional<std::filesystem::path> find_user_folder(const Environment& environment, std::string_view variable,
                                                      std::string_view below_home);

// `path` with a leading "~" or "~/" replaced by $HOME; unchanged without HOME.
std::filesystem::path expand_home(std::string_view path, const Environment& environment);

}  // namespace kpt
