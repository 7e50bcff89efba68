// A PJRT plugin opened in this process: its function table, and the one place where its errors become ours.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engines/xla/pjrt/pjrt_types.h"
#include "kpt/status.h"

namespace kpt::pjrt {

// Whose stack a plugin of this name is.
Vendor vendor_of_plugin(std::string_view name);

// Never unloaded: a plugin keeps threads and registries of its own. Thread safe.
class Plugin {
 public:
  // Opens and initialises the library; a second call for the same path gives the same object. Whoever calls this has
  // asked the plugin in a child process before (engines/xla/pjrt/detect_plugins.h): what crashes or hangs there would
  // do so here. `name` is for messages. Sets variables that XLA reads (host_flags.h). Fails with kVersionMismatch for a
  // version that we do not speak, kVendorLibrary for a library that is no plugin, lacks an entry (named) or does not
  // initialise, and as DynamicLibrary::open() does.
  static Result<std::shared_ptr<const Plugin>> open(const std::string& path, const std::string& name);
  // Whether open() has given this path in this process. Waits for no plugin that is being opened.
  static bool is_open(const std::string& path);

  const std::string& path() const { return path_; }
  const std::string& name() const { return name_; }
  int api_major() const { return head_->version.major_version; }
  int api_minor() const { return head_->version.minor_version; }
  // What tells this build of the plugin from others: interface version, the attributes it gives, size and time of its
  // file. Part of every cache key.
  const std::string& identity() const { return identity_; }
  // The same without what differs between machines that have the same release: the time of its file.
  const std::string& release() const { return release_; }
  // Whose stack it is, for Status::vendor().
  Vendor vendor() const { return vendor_; }

  // Calls the entry that belongs to Args. Fails with the plugin's error, or with kUnsupported when the plugin's table
  // has no such entry.
  template <typename Args>
  Status call(abi::Call<Args>& args) const {
    Args* plain = &args;
    return invoke(Args::kSlot, plain);
  }
  // For destructors: a failure there can only be logged.
  template <typename Args>
  void call_quietly(abi::Call<Args>& args) const {
    Args* plain = &args;
    log_failure(invoke(Args::kSlot, plain));
  }

  bool has(Slot slot) const;

 private:
  Plugin(std::string path, std::string name, const ApiHead* head);
  static Result<std::shared_ptr<const Plugin>> open_first(const std::string& path, const std::string& name);
  Status invoke(Slot slot, void* args) const;
  // The one function that turns a PJRT_Error into a Status; destroys the error.
  Status convert_error(abi::Error* error, Slot slot) const;
  static void log_failure(const Status& status);
  Status check_entries() const;
  Status initialize();

  std::string path_;
  std::string name_;
  const ApiHead* head_;
  std::string identity_;
  std::string release_;
  Vendor vendor_ = Vendor::kNone;
};

}  // namespace kpt::pjrt
