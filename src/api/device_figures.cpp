#include "kpt/device_figures.h"

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "api/backend_list.h"
#include "api/detection.h"
#include "api/model_loading.h"
#include "backends/nvidia/detect_nvidia.h"
#include "base/text.h"
#include "kpt/device.h"
#include "memory/available_memory.h"

namespace kpt {
namespace {

constexpr std::string_view kNvidiaPrefix = "nvidia:";

DeviceLoad describe_load(const NvidiaGpu& gpu) {
  DeviceLoad load;
  load.utilization_percent = gpu.utilization_percent;
  load.temperature_celsius = gpu.temperature_celsius;
  load.power_milliwatts = gpu.power_milliwatts;
  load.power_limit_milliwatts = gpu.power_limit_milliwatts;
  load.clock_mhz = gpu.clock_sm_now_mhz;
  load.clock_max_mhz = gpu.clock_sm_mhz;
  load.memory_clock_mhz = gpu.clock_memory_now_mhz;
  load.memory_clock_max_mhz = gpu.clock_memory_mhz;
  load.memory_free_bytes = gpu.memory_free_bytes;
  return load;
}

DeviceMemoryFigures describe_memory(const MemoryStatistics& memory) {
  DeviceMemoryFigures figures;
  figures.total_bytes = memory.total_bytes;
  figures.free_bytes = memory.free_bytes;
  figures.limit_bytes = memory.limit_bytes;
  figures.allocated_bytes = memory.allocated_bytes;
  figures.peak_bytes = memory.peak_bytes;
  figures.reserved_bytes = memory.reserved_bytes;
  figures.reserved_peak_bytes = memory.reserved_peak_bytes;
  figures.fragmentation = count_fragmentation(memory);
  figures.allocations = memory.allocations;
  figures.frees = memory.frees;
  figures.out_of_memory_count = memory.out_of_memory_count;
  figures.retries = memory.retries;
  return figures;
}

// Devices that were asked about. They stay open until the process ends: opening one may ask a child process, and
// closing one gives back what it keeps for later. Never destroyed, since vendors' libraries may be gone by then.
struct OpenedDevices {
  std::mutex mutex;
  std::map<std::string, PlacedDevice, std::less<>> by_name;
};

// A backend made anew has the allocator that loaded models have: there is one in the process.
Result<PlacedDevice> open_device(std::string_view name) {
  if (name == "auto") return find_device(name).status();  // which device that is may change between two calls
  const Environment environment = Environment::from_process();
  KPT_ASSIGN_OR_RETURN(const Config config, load_library_config(environment));
  static auto* const kOpened = new OpenedDevices();
  const std::lock_guard lock(kOpened->mutex);
  if (const auto found = kOpened->by_name.find(name); found != kOpened->by_name.end()) return found->second;
  KPT_ASSIGN_OR_RETURN(const BackendContext context, make_backend_context(config, environment));
  KPT_ASSIGN_OR_RETURN(PlacedDevice placed, find_runnable_device(name, context));
  kOpened->by_name.emplace(name, placed);
  return placed;
}

}  // namespace

Result<DeviceLoad> read_device_load(std::string_view name) {
  const Environment environment = Environment::from_process();
  KPT_ASSIGN_OR_RETURN(const Config config, load_library_config(environment));
  const auto index = name.starts_with(kNvidiaPrefix) ? parse_uint(name.substr(kNvidiaPrefix.size())) : std::nullopt;
  const bool named = index && name.substr(kNvidiaPrefix.size()) == std::to_string(*index);  // 00 names no device
  if (named && may_probe(config, "nvidia")) {
    SystemFiles files(environment.find("KPT_SYSTEM_ROOT").value_or("/"));
    const NvidiaReport report = detect_nvidia(make_detection_context(config, environment, std::move(files)));
    const auto gpu =
        std::ranges::find_if(report.gpus, [index](const NvidiaGpu& one) { return std::cmp_equal(one.index, *index); });
    if (gpu != report.gpus.end()) return describe_load(*gpu);
  }
  KPT_RETURN_IF_ERROR(find_device(name).status());
  return DeviceLoad{};
}

Result<DeviceMemoryFigures> read_device_memory(std::string_view name) {
  KPT_ASSIGN_OR_RETURN(const PlacedDevice placed, open_device(name));
  KPT_ASSIGN_OR_RETURN(const MemoryStatistics memory, placed.device->memory());
  return describe_memory(memory);
}

Status reset_device_memory_peak(std::string_view name) {
  KPT_ASSIGN_OR_RETURN(const PlacedDevice placed, open_device(name));
  return placed.device->reset_peak_memory();
}

Status empty_device_memory_cache(std::string_view name) {
  KPT_ASSIGN_OR_RETURN(const PlacedDevice placed, open_device(name));
  return placed.device->empty_cache();
}

}  // namespace kpt
