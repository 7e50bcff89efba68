#include "device/python_environments.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "base/files.h"
#include "base/text.h"

namespace kpt {
namespace {

// Two spellings of one folder count once: in a virtual environment lib64 is a link to lib.
void add_folder(std::vector<std::filesystem::path>& folders, const std::filesystem::path& folder) {
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) return;
  const bool known = std::ranges::any_of(folders, [&folder](const std::filesystem::path& other) {
    std::error_code ignored;
    return std::filesystem::equivalent(other, folder, ignored);
  });
  if (!known) folders.push_back(folder);
}

void add_environment(std::vector<std::filesystem::path>& folders, const std::filesystem::path& prefix) {
  // A relative prefix would depend on the folder that we happen to be started in.
  if (!prefix.is_absolute()) return;
  constexpr std::string_view kPython = "python3.";
  for (const char* library : {"lib", "lib64"}) {
    const auto names = SystemFiles().list((prefix / library).string());
    if (!names.ok()) continue;
    std::vector<std::pair<std::int64_t, std::string>> versions;
    for (const std::string& name : *names) {
      if (!name.starts_with(kPython)) continue;
      if (const auto minor = parse_int(std::string_view(name).substr(kPython.size()))) {
        versions.emplace_back(*minor, name);
      }
    }
    std::ranges::sort(versions, std::greater<>());
    for (const auto& [minor, name] : versions) add_folder(folders, prefix / library / name / "site-packages");
  }
}

}  // namespace

std::vector<std::filesystem::path> find_site_packages(const Environment& environment,
                                                      const std::filesystem::path& torch_dir) {
  std::vector<std::filesystem::path> folders;
  // A trailing slash leaves an empty file name, whose parent would be torch_dir itself.
  const std::filesystem::path torch = torch_dir.has_filename() ? torch_dir : torch_dir.parent_path();
  if (torch.is_absolute()) add_folder(folders, torch.parent_path());
  if (const auto prefix = environment.find("VIRTUAL_ENV")) add_environment(folders, *prefix);
  if (const auto prefix = environment.find("CONDA_PREFIX")) add_environment(folders, *prefix);
  return folders;
}

}  // namespace kpt
