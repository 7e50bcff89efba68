#include "base/build_paths.h"

#include <dlfcn.h>

#include <fmt/format.h>

namespace kpt {
namespace {

// The folder of the program or library that this function was linked into.
std::filesystem::path own_folder() {
  Dl_info info{};
  std::error_code error;
  // For code in the main program dladdr gives argv[0], which may be relative or found through PATH.
  if (::dladdr(reinterpret_cast<const void*>(&own_folder), &info) != 0 && info.dli_fname != nullptr) {
    const std::filesystem::path file(info.dli_fname);
    if (file.filename().string().find(".so") != std::string::npos) {
      return std::filesystem::absolute(file, error).lexically_normal().parent_path();
    }
  }
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
}

// The folder that holds bin, lib and libexec. Modules and helper programs lie one level deeper, in a folder "kpt".
std::filesystem::path prefix() {
  const std::filesystem::path folder = own_folder();
  return folder.filename() == "kpt" ? folder.parent_path().parent_path() : folder.parent_path();
}

}  // namespace

Result<std::filesystem::path> find_helper(const Environment& environment, const std::string& name) {
  const auto folder = environment.find("KPT_HELPER_DIR");
  const std::filesystem::path path =
      folder ? std::filesystem::path(*folder) / name : prefix() / "libexec" / "kpt" / name;
  std::error_code error;
  if (std::filesystem::exists(path, error)) return path;
  return Status(StatusCode::kNotFound,
                fmt::format("the helper program {} is not at {}; reinstall, or set KPT_HELPER_DIR "
                            "to the folder that holds it",
                            name, path.string()));
}

std::filesystem::path module_folder(const Environment& environment) {
  if (const auto folder = environment.find("KPT_MODULE_DIR")) return *folder;
  return prefix() / "lib" / "kpt";
}

}  // namespace kpt
