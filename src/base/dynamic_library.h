// A shared library opened at run time.
//
// Vendor libraries are never unloaded (drivers keep threads and exit handlers), so there is no close.
#pragma once

#include <string>

#include "kpt/status.h"

namespace kpt {

class DynamicLibrary {
 public:
  enum class Visibility { kLocal, kGlobal };  // kGlobal: its symbols serve libraries opened later

  // `name` is a soname for the loader's search path, or a path. Fails with kNotFound when it is not there and with
  // kVendorLibrary when it is there but cannot be loaded; the message is the loader's own. An empty name is
  // kInvalidArgument.
  static Result<DynamicLibrary> open(const std::string& name, Visibility visibility = Visibility::kLocal);

  // The function of that name, or nullptr.
  template <typename Function>
  Function find(const char* name) const {
    return reinterpret_cast<Function>(find_address(name));
  }

  // Where the library was loaded from; the name it was opened by if the loader does not tell.
  std::string path() const;

 private:
  DynamicLibrary(void* handle, std::string name) : handle_(handle), name_(std::move(name)) {}
  void* find_address(const char* name) const;

  void* handle_;
  std::string name_;
};

}  // namespace kpt
