#include "engines/xla/pjrt/plugin.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>

#include <fmt/format.h>

#include "base/dynamic_library.h"
#include "base/log.h"
#include "base/text.h"
#include "engines/xla/pjrt/function_table.h"
#include "engines/xla/pjrt/host_flags.h"

namespace kpt::pjrt {
namespace {

// Without these nothing can run; the others are asked for where they are needed.
constexpr std::array kNeeded = {
    Slot::kErrorDestroy,
    Slot::kErrorMessage,
    Slot::kErrorGetCode,
    Slot::kPluginInitialize,
    Slot::kEventDestroy,
    Slot::kEventAwait,
    Slot::kClientCreate,
    Slot::kClientDestroy,
    Slot::kClientPlatformName,
    Slot::kClientPlatformVersion,
    Slot::kClientAddressableDevices,
    Slot::kClientCompile,
    Slot::kClientBufferFromHostBuffer,
    Slot::kDeviceDescriptionId,
    Slot::kDeviceDescriptionKind,
    Slot::kDeviceGetDescription,
    Slot::kExecutableDestroy,
    Slot::kExecutableNumOutputs,
    Slot::kLoadedExecutableDestroy,
    Slot::kLoadedExecutableGetExecutable,
    Slot::kLoadedExecutableExecute,
    Slot::kBufferDestroy,
    Slot::kBufferElementType,
    Slot::kBufferDimensions,
    Slot::kBufferToHostBuffer,
};

// The codes are those of abseil. An error of the compiler is told apart from one of the caller: both come as
// INVALID_ARGUMENT or INTERNAL. ABORTED is what libtpu gives beside another process that has the chips.
StatusCode code_of(int code, Slot slot) {
  const bool compiling = slot == Slot::kClientCompile;
  if (slot == Slot::kPluginInitialize && code == 10) return StatusCode::kDeviceNotAvailable;
  switch (code) {
    case 1: return StatusCode::kCancelled;
    case 3: return compiling ? StatusCode::kCompilation : StatusCode::kInvalidArgument;
    case 4: return StatusCode::kDeadlineExceeded;
    case 5: return StatusCode::kNotFound;
    case 6: return StatusCode::kAlreadyExists;
    case 7:
    case 16: return StatusCode::kPermissionDenied;
    case 8: return StatusCode::kOutOfMemory;
    case 12: return StatusCode::kUnsupported;
    case 14: return StatusCode::kDeviceNotAvailable;
    case 15: return StatusCode::kCorruptData;
    default: return compiling ? StatusCode::kCompilation : StatusCode::kVendorLibrary;
  }
}

bool only_tells_figures(Slot slot) {
  return slot == Slot::kDeviceMemoryStats || slot == Slot::kExecutableGetCompiledMemoryStats ||
         slot == Slot::kExecutableGetCostAnalysis;
}

// What a user can do about it: the plugin's own words rarely say.
std::string_view remedy_of(StatusCode code, Slot slot) {
  switch (code) {
    case StatusCode::kOutOfMemory: return "free memory on the device or use a smaller batch";
    case StatusCode::kDeviceNotAvailable: return "see whether the device is there and free: kpt doctor";
    case StatusCode::kPermissionDenied: return "see who may use the device: kpt doctor";
    case StatusCode::kNotFound: return "see whether the plugin is installed with all that it needs: kpt doctor";
    case StatusCode::kCancelled:
    case StatusCode::kDeadlineExceeded: return "try again, and see who else uses the device: kpt doctor";
    case StatusCode::kUnsupported:
      if (only_tells_figures(slot)) return "only these figures are missing";
      [[fallthrough]];
    case StatusCode::kCompilation:
    case StatusCode::kInvalidArgument: return "update the plugin, or run on another device";
    default: return "see whether the plugin fits the device and its driver (kpt doctor), or run on another device";
  }
}

std::string describe_file(const std::string& path) {
  std::error_code error;
  const auto bytes = std::filesystem::file_size(path, error);
  const auto time = std::filesystem::last_write_time(path, error);
  if (error) return "";
  return fmt::format("{} bytes of {}", bytes, time.time_since_epoch().count());
}

std::string describe_value(const abi::NamedValue& value) {
  switch (value.type) {
    case abi::kNamedString: return std::string(value.string_value, value.value_size);
    case abi::kNamedInt64: return std::to_string(value.int64_value);
    case abi::kNamedInt64List: {
      std::string text;
      for (std::size_t i = 0; i < value.value_size; ++i) text += fmt::format(".{}", value.int64_array_value[i]);
      return text;
    }
    case abi::kNamedFloat: return std::to_string(value.float_value);
    case abi::kNamedBool: return value.bool_value ? "true" : "false";
    default: return "?";
  }
}

// An array of another version's structures: the stride is what the plugin says, within reason.
std::string describe_attributes(const abi::NamedValue* first, std::size_t count) {
  constexpr std::size_t kMost = 64;
  if (first == nullptr || count == 0) return "";
  const std::size_t stride = first->struct_size;
  if (stride < sizeof(abi::NamedValue) || stride > 1024) return "";
  std::string text;
  for (std::size_t i = 0; i < std::min(count, kMost); ++i) {
    abi::NamedValue value;
    std::memcpy(&value, reinterpret_cast<const std::byte*>(first) + i * stride, sizeof(value));
    text += fmt::format("; {}={}", std::string_view(value.name, value.name_size), describe_value(value));
  }
  return text;
}

struct Registry {
  std::mutex loading;  // held while a library is loaded, which sets variables and reads them
  std::mutex mutex;    // of the maps
  std::map<std::string, std::shared_ptr<const Plugin>> plugins;
  std::map<std::string, std::mutex> opening;  // by path: held while it is opened, for ever by one that hangs

  std::shared_ptr<const Plugin> find(const std::string& path) {
    const std::lock_guard lock(mutex);
    const auto found = plugins.find(path);
    return found == plugins.end() ? nullptr : found->second;
  }
  std::mutex& opening_of(const std::string& path) {
    const std::lock_guard lock(mutex);
    return opening[path];
  }
};

// Never destroyed, as plugins are never unloaded.
Registry& registry() {
  static auto* const kInstance = new Registry();
  return *kInstance;
}

Status no_plugin(const std::string& name, const std::string& what) {
  return {StatusCode::kVendorLibrary, fmt::format("PJRT plugin {}: {}", name, what)};
}

Result<DynamicLibrary> load_library(const std::string& path) {
  const std::lock_guard loading(registry().loading);
  const std::string file = to_lower(std::filesystem::path(path).filename().string());
  set_xla_environment(file.find("cpu") != std::string::npos);
  return DynamicLibrary::open(path);
}

Result<const ApiHead*> find_table(const std::string& path, const std::string& name) {
  KPT_ASSIGN_OR_RETURN(const DynamicLibrary library, load_library(path));
  const auto get_api = library.find<GetApiFunction>(kGetApiName);
  if (get_api == nullptr) {
    return no_plugin(name, fmt::format("{} has no function {}; give the path of a PJRT plugin", path, kGetApiName));
  }
  const ApiHead* head = get_api();  // without the lock: one that hangs here must not keep the others
  if (head == nullptr) return no_plugin(name, fmt::format("its {} gives no table; reinstall it", kGetApiName));
  if (head->struct_size < sizeof(ApiHead) || head->struct_size > kLargestTableBytes) {
    return no_plugin(name, fmt::format("its table of {} bytes is none; reinstall it", head->struct_size));
  }
  const int major = head->version.major_version;
  const int minor = head->version.minor_version;
  if (major != kSupportedMajor || minor < kOldestMinor) {
    return Status(StatusCode::kVersionMismatch,
                  fmt::format("PJRT plugin {} speaks PJRT {}.{}, but {}.{} or newer of the same major version is "
                              "needed; install another release of the plugin",
                              name, major, minor, kSupportedMajor, kOldestMinor));
  }
  return head;
}

}  // namespace

Vendor vendor_of_plugin(std::string_view name) {
  const std::string lower = to_lower(name);
  if (lower.find("cuda") != std::string::npos) return Vendor::kNvidia;
  if (lower.find("rocm") != std::string::npos) return Vendor::kAmd;
  if (lower.find("tpu") != std::string::npos) return Vendor::kTpu;
  return Vendor::kNone;
}

Plugin::Plugin(std::string path, std::string name, const ApiHead* head)
    : path_(std::move(path)), name_(std::move(name)), head_(head), vendor_(vendor_of_plugin(name_)) {}

Result<std::shared_ptr<const Plugin>> Plugin::open(const std::string& path, const std::string& name) {
  Registry& known = registry();
  if (auto open = known.find(path)) return open;
  const std::lock_guard opening(known.opening_of(path));
  if (auto open = known.find(path)) return open;  // by another thread meanwhile
  KPT_ASSIGN_OR_RETURN(std::shared_ptr<const Plugin> plugin, open_first(path, name));
  const std::lock_guard lock(known.mutex);
  known.plugins.emplace(path, plugin);
  return plugin;
}

bool Plugin::is_open(const std::string& path) { return registry().find(path) != nullptr; }

Result<std::shared_ptr<const Plugin>> Plugin::open_first(const std::string& path, const std::string& name) {
  KPT_ASSIGN_OR_RETURN(const ApiHead* head, find_table(path, name));
  std::shared_ptr<Plugin> plugin(new Plugin(path, name, head));
  KPT_RETURN_IF_ERROR(plugin->check_entries());
  KPT_RETURN_IF_ERROR(plugin->initialize());
  return std::shared_ptr<const Plugin>(std::move(plugin));
}

bool Plugin::has(Slot slot) const { return find_entry(*head_, slot) != nullptr; }

Status Plugin::check_entries() const {
  std::string missing;
  for (const Slot slot : kNeeded) {
    if (!has(slot)) missing += fmt::format("{}{}", missing.empty() ? "" : ", ", name_of(slot));
  }
  if (missing.empty()) return {};
  return no_plugin(name_, fmt::format("its table lacks {}; install another release of the plugin", missing));
}

Status Plugin::initialize() {
  abi::Call<abi::PluginInitializeArgs> initialize;
  KPT_RETURN_IF_ERROR(call(initialize));
  std::string told;
  if (has(Slot::kPluginAttributes)) {
    abi::Call<abi::PluginAttributesArgs> attributes;
    KPT_RETURN_IF_ERROR(call(attributes));
    told = describe_attributes(attributes.attributes, attributes.num_attributes);
  }
  const std::string api = fmt::format("PJRT {}.{}", api_major(), api_minor());
  std::error_code error;
  const auto bytes = std::filesystem::file_size(path_, error);
  identity_ = fmt::format("{}; {}{}", api, describe_file(path_), told);
  release_ = fmt::format("{}; {}{}", api, error ? "" : fmt::format("{} bytes", bytes), told);
  return {};
}

Status Plugin::invoke(Slot slot, void* args) const {
  using Entry = abi::Error* (*)(void*);
  void* const address = find_entry(*head_, slot);
  if (address == nullptr) {
    return {StatusCode::kUnsupported,
            fmt::format("PJRT plugin {} (PJRT {}.{}) lacks {}; install a newer release of the plugin", name_,
                        api_major(), api_minor(), name_of(slot)),
            vendor_};
  }
  abi::Error* const error = reinterpret_cast<Entry>(address)(args);
  return error == nullptr ? Status() : convert_error(error, slot);
}

Status Plugin::convert_error(abi::Error* error, Slot slot) const {
  const PluginError taken = take_error(*head_, error);
  const StatusCode ours = taken.code ? code_of(*taken.code, slot) : StatusCode::kVendorLibrary;
  return {ours,
          fmt::format("PJRT plugin {}: {} failed: {}; {}", name_, name_of(slot), trim(taken.message),
                      remedy_of(ours, slot)),
          vendor_};
}

void Plugin::log_failure(const Status& status) {
  if (!status.ok()) log::warn("a PJRT object could not be released", {{"reason", status.message()}});
}

}  // namespace kpt::pjrt
