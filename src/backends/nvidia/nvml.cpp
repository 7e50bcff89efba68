#include "backends/nvidia/nvml.h"

#include <array>
#include <limits>

#include <fmt/format.h>

#include "device/vendor_text.h"

namespace kpt {
namespace {

// Own declarations of NVML's C interface; all of it has been stable since NVML 11.
using NvmlDevice = void*;
struct NvmlMemory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};
struct NvmlUtilization {
  unsigned gpu;  // per cent of the last sample period
  unsigned memory;
};
constexpr int kSuccess = 0;
constexpr int kNotSupported = 3;
constexpr int kClockSm = 1;
constexpr int kClockMemory = 2;
constexpr int kTemperatureGpu = 0;

using InitFunction = int (*)();
using ErrorStringFunction = const char* (*)(int);
using DriverVersionFunction = int (*)(char*, unsigned);
using CountFunction = int (*)(unsigned*);
using HandleFunction = int (*)(const char*, NvmlDevice*);
using MemoryFunction = int (*)(NvmlDevice, NvmlMemory*);
using ClockFunction = int (*)(NvmlDevice, int, unsigned*);
using UtilizationFunction = int (*)(NvmlDevice, NvmlUtilization*);
using TemperatureFunction = int (*)(NvmlDevice, int, unsigned*);
using PowerFunction = int (*)(NvmlDevice, unsigned*);             // milliwatts
using StateFunction = int (*)(NvmlDevice, unsigned*, unsigned*);  // current and pending: ECC and MIG

std::optional<int> to_int(unsigned value) {
  if (value > static_cast<unsigned>(std::numeric_limits<int>::max())) return std::nullopt;
  return static_cast<int>(value);
}

std::optional<int> to_mhz(unsigned value) { return value == 0 ? std::nullopt : to_int(value); }

}  // namespace

Result<Nvml> Nvml::open(const std::string& library) {
  KPT_ASSIGN_OR_RETURN(DynamicLibrary opened, DynamicLibrary::open(library));
  Nvml nvml(std::move(opened));
  const auto init = nvml.library_.find<InitFunction>("nvmlInit_v2");
  if (init == nullptr) {
    return Status(StatusCode::kVendorLibrary, library + " lacks nvmlInit_v2", Vendor::kNvidia);
  }
  if (const int code = init(); code != kSuccess) {
    return Status(StatusCode::kVendorLibrary, fmt::format("nvmlInit_v2 failed: {}", nvml.error_text(code)),
                  Vendor::kNvidia);
  }
  return nvml;
}

std::string Nvml::error_text(int code) const {
  const auto describe = library_.find<ErrorStringFunction>("nvmlErrorString");
  const char* text = describe != nullptr ? describe(code) : nullptr;
  if (text == nullptr) return fmt::format("NVML error {}", code);
  return fmt::format("{} (NVML error {})", printable_text(std::string(text)), code);
}

std::optional<std::string> Nvml::driver_version() const {
  const auto get = library_.find<DriverVersionFunction>("nvmlSystemGetDriverVersion");
  std::array<char, 96> text{};
  if (get == nullptr || get(text.data(), static_cast<unsigned>(text.size())) != kSuccess) return std::nullopt;
  return printable_text(text);
}

std::optional<unsigned> Nvml::device_count() const {
  const auto get = library_.find<CountFunction>("nvmlDeviceGetCount_v2");
  unsigned count = 0;
  if (get == nullptr || get(&count) != kSuccess) return std::nullopt;
  return count;
}

void* Nvml::find_device(NvidiaGpu& gpu) const {
  NvmlDevice device = nullptr;
  const auto by_uuid = library_.find<HandleFunction>("nvmlDeviceGetHandleByUUID");
  constexpr std::string_view kWhole = "GPU-";
  if (by_uuid != nullptr && gpu.uuid.starts_with(kWhole)) {
    if (by_uuid(gpu.uuid.c_str(), &device) == kSuccess) return device;
    // The driver gives the same 16 bytes for a whole GPU and for a MIG slice; only NVML knows which it is.
    const std::string slice = "MIG-" + gpu.uuid.substr(kWhole.size());
    if (by_uuid(slice.c_str(), &device) == kSuccess) {
      gpu.uuid = slice;
      gpu.mig_enabled = true;
      return device;
    }
  }
  const auto by_bus = library_.find<HandleFunction>("nvmlDeviceGetHandleByPciBusId_v2");
  if (by_bus != nullptr && !gpu.pci_bus_id.empty() && by_bus(gpu.pci_bus_id.c_str(), &device) == kSuccess)
    return device;
  return nullptr;
}

bool Nvml::accept(int code, const char* what, const NvidiaGpu& gpu, std::vector<std::string>& notes) const {
  if (code == kSuccess) return true;
  if (code != kNotSupported) {
    notes.push_back(fmt::format("GPU {}: NVML did not tell the {}: {}", gpu.index, what, error_text(code)));
  }
  return false;
}

void Nvml::read_clocks(void* device, NvidiaGpu& gpu, std::vector<std::string>& notes) const {
  unsigned mhz = 0;
  if (const auto get = library_.find<ClockFunction>("nvmlDeviceGetMaxClockInfo"); get != nullptr) {
    if (accept(get(device, kClockSm, &mhz), "SM clock", gpu, notes)) gpu.clock_sm_mhz = to_mhz(mhz);
    if (accept(get(device, kClockMemory, &mhz), "memory clock", gpu, notes)) gpu.clock_memory_mhz = to_mhz(mhz);
  }
  if (const auto get = library_.find<ClockFunction>("nvmlDeviceGetClockInfo"); get != nullptr) {
    if (accept(get(device, kClockSm, &mhz), "SM clock of now", gpu, notes)) gpu.clock_sm_now_mhz = to_mhz(mhz);
    if (accept(get(device, kClockMemory, &mhz), "memory clock of now", gpu, notes)) {
      gpu.clock_memory_now_mhz = to_mhz(mhz);
    }
  }
}

void Nvml::read_load(void* device, NvidiaGpu& gpu, std::vector<std::string>& notes) const {
  NvmlUtilization load{};
  if (const auto get = library_.find<UtilizationFunction>("nvmlDeviceGetUtilizationRates");
      get != nullptr && accept(get(device, &load), "utilisation", gpu, notes)) {
    gpu.utilization_percent = to_int(load.gpu);
  }
  unsigned value = 0;
  if (const auto get = library_.find<TemperatureFunction>("nvmlDeviceGetTemperature");
      get != nullptr && accept(get(device, kTemperatureGpu, &value), "temperature", gpu, notes)) {
    gpu.temperature_celsius = to_int(value);
  }
  if (const auto get = library_.find<PowerFunction>("nvmlDeviceGetPowerUsage");
      get != nullptr && accept(get(device, &value), "power", gpu, notes)) {
    gpu.power_milliwatts = to_int(value);
  }
  if (const auto get = library_.find<PowerFunction>("nvmlDeviceGetEnforcedPowerLimit");
      get != nullptr && accept(get(device, &value), "power limit", gpu, notes)) {
    gpu.power_limit_milliwatts = to_int(value);
  }
}

void Nvml::complete(NvidiaGpu& gpu, std::vector<std::string>& notes) const {
  NvmlDevice device = find_device(gpu);
  if (device == nullptr) {
    notes.push_back(fmt::format(
        "GPU {}: NVML does not know it, so free memory, clocks, load, ECC and MIG are not shown", gpu.index));
    return;
  }
  NvmlMemory memory{};
  if (const auto get = library_.find<MemoryFunction>("nvmlDeviceGetMemoryInfo");
      get != nullptr && accept(get(device, &memory), "free memory", gpu, notes)) {
    gpu.memory_free_bytes = memory.free;
  }
  read_clocks(device, gpu, notes);
  read_load(device, gpu, notes);
  unsigned current = 0;
  unsigned pending = 0;
  if (const auto get = library_.find<StateFunction>("nvmlDeviceGetEccMode");
      get != nullptr && accept(get(device, &current, &pending), "ECC state", gpu, notes)) {
    gpu.ecc_enabled = current != 0;
  }
  if (const auto get = library_.find<StateFunction>("nvmlDeviceGetMigMode");
      get != nullptr && accept(get(device, &current, &pending), "MIG state", gpu, notes)) {
    gpu.mig_enabled = current != 0;
  }
}

}  // namespace kpt
