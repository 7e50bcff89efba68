#include "config/user_folders.h"

namespace kpt {

std::optional<std::filesystem::path> find_user_folder(const Environment& environment, std::string_view variable,
                                                      std::string_view below_home) {
  if (const auto named = environment.find(variable)) {
    std::filesystem::path folder(*named);
    if (folder.is_absolute()) return folder;
  }
  if (const auto home = environment.find("HOME")) {
    const std::filesystem::path folder(*home);
    if (folder.is_absolute()) return folder / below_home;
  }
  return std::nullopt;
}

std::filesystem::path expand_home(std::string_view path, const Environment& environment) {
  const auto home = environment.find("HOME");
  if (!home || !(path == "~" || path.starts_with("~/"))) return {path};
  const std::string_view rest = path.substr(path == "~" ? 1 : 2);
  return rest.empty() ? std::filesystem::path(*home) : std::filesystem::path(*home) / rest;
}

}  // namespace kpt
