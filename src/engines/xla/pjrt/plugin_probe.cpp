#include "engines/xla/pjrt/plugin_probe.h"

#include <cstdlib>

#include <fmt/format.h>

#include "base/dynamic_library.h"
#include "engines/xla/pjrt/pjrt_abi.h"

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

}  // namespace

PjrtPlugin probe_pjrt_plugin(const std::string& path) {
  PjrtPlugin plugin;
  plugin.path = path;
  // NOLINTNEXTLINE(concurrency-mt-unsafe): kpt-probe has one thread until the plugin starts its own.
  ::setenv("TPU_SKIP_MDS_QUERY", "1", 1);
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
  }
  return plugin;
}

}  // namespace kpt
