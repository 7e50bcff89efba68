#include "engines/xla/pjrt/plugin_probe.h"

#include <cstdlib>
#include <optional>

#include <fmt/format.h>

#include "base/dynamic_library.h"
#include "base/text.h"
#include "engines/xla/pjrt/function_table.h"

namespace kpt {
namespace {

Finding broken(std::string reason, std::string remedy) {
  return {Presence::kBroken, std::move(reason), std::move(remedy)};
}

Finding judge_version(int major, int minor) {
  if (major < 0 || minor < 0) {
    return broken(fmt::format("its version {}.{} makes no sense", major, minor), "reinstall the plugin");
  }
  if (major != pjrt::kSupportedMajor) {
    return broken(fmt::format("it speaks PJRT API {}.{}; only major version {} is known here", major, minor,
                              pjrt::kSupportedMajor),
                  "install a newer KernelPyTorch, or an older release of the plugin");
  }
  if (minor < pjrt::kOldestMinor) {
    return broken(fmt::format("it speaks PJRT API {}.{}; {}.{} or newer is needed", major, minor, pjrt::kSupportedMajor,
                              pjrt::kOldestMinor),
                  "install a newer release of the plugin");
  }
  return {Presence::kPresent, "", ""};
}

// Calls the entry that belongs to Args, where there is one: Plugin::open() names those that are missing. What the
// plugin complains of.
template <typename Args>
std::optional<std::string> find_complaint(const pjrt::ApiHead& table) {
  void* const entry = pjrt::find_entry(table, Args::kSlot);
  if (entry == nullptr) return std::nullopt;
  pjrt::abi::Call<Args> args;
  auto* const error = reinterpret_cast<pjrt::abi::Error* (*)(void*)>(entry)(static_cast<Args*>(&args));
  if (error == nullptr) return std::nullopt;
  return fmt::format("its {} failed: {}", pjrt::name_of(Args::kSlot), trim(pjrt::take_error(table, error).message));
}

// What Plugin::open() will call. XLA's own plugins for CPUs and GPUs do nothing of weight there. libtpu reads its
// flags, registers its platforms and takes the lock of whoever computes on the chips (see below), which it opens with a
// client only. Whatever another plugin takes goes with this process.
Finding initialize(const pjrt::ApiHead& table) {
  auto complaint = find_complaint<pjrt::abi::PluginInitializeArgs>(table);
  if (!complaint) complaint = find_complaint<pjrt::abi::PluginAttributesArgs>(table);
  if (!complaint) return {Presence::kPresent, "", ""};
  return broken(std::move(*complaint), "mend what the plugin complains of, or install another release of it");
}

// Away from Google's cloud libtpu waits for a metadata server. The lock that it takes when it is initialised (0.0.51:
// the file libtpu_lockfile, and ABORTED beside who has it) is held as long as the process lives: who starts to compute
// meanwhile would be refused for our sake, and we beside one that computes; two probes would see each other. So the
// child does without, and who has the chips shows when they are opened.
void set_libtpu_environment() {
  for (const char* name : {"TPU_SKIP_MDS_QUERY", "ALLOW_MULTIPLE_LIBTPU_LOAD"}) {
    ::setenv(name, "1", 1);  // NOLINT(concurrency-mt-unsafe): kpt-probe has one thread until the plugin starts its own.
  }
}

}  // namespace

PjrtPlugin probe_pjrt_plugin(const std::string& path) {
  PjrtPlugin plugin;
  plugin.path = path;
  set_libtpu_environment();
  const auto library = DynamicLibrary::open(path);
  if (!library.ok()) {
    plugin.finding = broken(library.status().message(), "reinstall the plugin and what it depends on");
    return plugin;
  }
  const auto get_api = library->find<pjrt::GetApiFunction>(pjrt::kGetApiName);
  if (get_api == nullptr) {
    plugin.finding = broken(fmt::format("it has no function {}, so it is no PJRT plugin", pjrt::kGetApiName),
                            "give the path of a PJRT plugin, or remove this one from the search");
    return plugin;
  }
  const pjrt::ApiHead* api = get_api();
  if (api == nullptr) {
    plugin.finding = broken(fmt::format("its {} gives no table", pjrt::kGetApiName), "reinstall the plugin");
    return plugin;
  }
  // The version lies inside the head, so a table too short for the head has none.
  const std::size_t table_bytes = api->struct_size;
  if (table_bytes >= sizeof(pjrt::ApiHead)) {
    plugin.api_major = api->version.major_version;
    plugin.api_minor = api->version.minor_version;
    plugin.finding = judge_version(plugin.api_major, plugin.api_minor);
    if (plugin.finding.presence == Presence::kBroken) return plugin;
  }
  if (table_bytes < pjrt::kSmallestTableBytes || table_bytes > pjrt::kLargestTableBytes) {
    plugin.finding = broken(fmt::format("its function table has {} bytes; {} to {} are plausible", table_bytes,
                                        pjrt::kSmallestTableBytes, pjrt::kLargestTableBytes),
                            "reinstall the plugin");
    return plugin;
  }
  plugin.finding = initialize(*api);
  return plugin;
}

}  // namespace kpt
