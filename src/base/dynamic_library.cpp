#include "base/dynamic_library.h"

#include <dlfcn.h>
#include <link.h>

#include <fmt/format.h>

namespace kpt {

Result<DynamicLibrary> DynamicLibrary::open(const std::string& name, Visibility visibility) {
  // The loader takes an empty name for the program itself.
  if (name.empty()) return Status(StatusCode::kInvalidArgument, "cannot load a library without a name");
  const int scope = visibility == Visibility::kGlobal ? RTLD_GLOBAL : RTLD_LOCAL;
  void* handle = ::dlopen(name.c_str(), RTLD_NOW | scope);
  if (handle != nullptr) return DynamicLibrary(handle, name);
  const char* error = ::dlerror();  // NOLINT(concurrency-mt-unsafe): thread-local in glibc
  const std::string reason = error != nullptr ? error : "unknown loader error";
  // The loader has no error codes. "libx.so.1: cannot open shared object file: No such file…" begins with the name
  // asked for when that file itself is missing, and with another name when one of its dependencies is.
  const bool missing = reason.starts_with(name + ": cannot open shared object file: No such file");
  return Status(missing ? StatusCode::kNotFound : StatusCode::kVendorLibrary, fmt::format("cannot load {}", reason));
}

void* DynamicLibrary::find_address(const char* name) const { return ::dlsym(handle_, name); }

std::string DynamicLibrary::path() const {
  link_map* map = nullptr;
  if (::dlinfo(handle_, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr && map->l_name != nullptr &&
      *map->l_name != '\0') {
    return map->l_name;
  }
  return name_;
}

}  // namespace kpt
