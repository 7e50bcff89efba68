#include "device/python_environments.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

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

// <prefix>/bin/python of <prefix>/lib/python3.11/site-packages, or python3.11 where that is not the same; empty where
// neither is there.
std::filesystem::path find_interpreter(const std::filesystem::path& site_packages) {
  const std::filesystem::path library = site_packages.parent_path();
  const std::filesystem::path programs = library.parent_path().parent_path() / "bin";
  const std::filesystem::path plain = programs / "python";
  const std::filesystem::path exact = programs / library.filename();
  std::error_code error;
  if (!std::filesystem::exists(exact, error)) return std::filesystem::exists(plain, error) ? plain : "";
  return std::filesystem::equivalent(plain, exact, error) ? plain : exact;
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

std::string pip_command(const std::filesystem::path& site_packages, std::string_view packages) {
  std::error_code error;
  // A system's own folder is called otherwise (dist-packages), and its Python installs elsewhere.
  const bool own = site_packages.filename() == "site-packages" && std::filesystem::exists(site_packages / "pip", error);
  const std::filesystem::path python = own ? find_interpreter(site_packages) : "";
  if (!python.empty()) return fmt::format("{} -m pip install {}", python.string(), packages);
  const std::string library = site_packages.parent_path().filename().string();  // python3.11, as its Python is called
  return fmt::format("{} -m pip install --upgrade --target {} {}", library.starts_with("python3") ? library : "python3",
                     site_packages.string(), packages);
}

std::string pip_remedy(const std::vector<std::filesystem::path>& site_packages, std::string_view packages,
                       std::string_view otherwise) {
  if (!site_packages.empty()) return pip_command(site_packages.front(), packages);
  return fmt::format("pip install {} into an active virtual environment, or {}", packages, otherwise);
}

}  // namespace kpt
