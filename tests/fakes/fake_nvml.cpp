// libnvidia-ml.so.1 from the same file as the fake driver (KPT_FAKE_CUDA). Keys: driver_version, nvml_count (default:
// the number of devices). Keys of a device: memory_total, memory_free, clock_sm, clock_memory, clock_sm_now,
// clock_memory_now, utilization, temperature, power, power_limit (milliwatts), ecc, mig; one that is missing answers
// "not supported".
#include "fake_spec.h"

namespace {

constexpr int kNotSupported = 3;
constexpr int kNotFound = 6;

fake::Spec& spec() {
  static fake::Spec instance("KPT_FAKE_CUDA");
  return instance;
}

struct Memory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

// A handle is the device's number plus one, so that no handle is null.
int index_of(void* device) { return static_cast<int>(reinterpret_cast<std::size_t>(device)) - 1; }

int find_device(const char* function, const char* key, const std::string& text, void** device) {
  if (const int code = spec().enter(function); code != 0) return code;
  for (int index = 0; index < spec().device_count(); ++index) {
    if (spec().device(index).value(key, "") != text) continue;
    *device = reinterpret_cast<void*>(static_cast<std::size_t>(index) + 1);
    return 0;
  }
  return kNotFound;
}

int get_state(const char* function, const char* key, void* device, unsigned* current, unsigned* pending) {
  const int index = index_of(device);
  if (const int code = spec().enter(function, index, kNotFound); code != 0) return code;
  if (!spec().device(index).contains(key)) return kNotSupported;
  *current = spec().device(index)[key].get<bool>() ? 1 : 0;
  *pending = *current;
  return 0;
}

int get_number(const char* function, const char* key, void* device, unsigned* number) {
  const int index = index_of(device);
  if (const int code = spec().enter(function, index, kNotFound); code != 0) return code;
  if (!spec().device(index).contains(key)) return kNotSupported;
  *number = spec().device(index)[key].get<unsigned>();
  return 0;
}

}  // namespace

KPT_FAKE_EXPORT int nvmlInit_v2() { return spec().enter("nvmlInit_v2"); }

KPT_FAKE_EXPORT const char* nvmlErrorString(int code) {
  switch (code) {
    case 3: return "Not Supported";
    case 4: return "Insufficient Permissions";
    case 6: return "Not Found";
    case 9: return "Driver Not Loaded";
    case 18: return "Driver/library version mismatch";
    default: return "Unknown Error";
  }
}

KPT_FAKE_EXPORT int nvmlSystemGetDriverVersion(char* text, unsigned length) {
  fake::copy_text(spec().json().value("driver_version", ""), text, static_cast<int>(length));
  return spec().enter("nvmlSystemGetDriverVersion");
}

KPT_FAKE_EXPORT int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = static_cast<unsigned>(spec().json().value("nvml_count", spec().device_count()));
  return spec().enter("nvmlDeviceGetCount_v2");
}

KPT_FAKE_EXPORT int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  const std::string text = uuid;
  // A device is a MIG slice exactly if its key "slice" says so.
  const bool slice = text.starts_with("MIG-");
  if (const int code = find_device("nvmlDeviceGetHandleByUUID", "uuid", text.substr(4), device); code != 0) return code;
  return spec().device(index_of(*device)).value("slice", false) == slice ? 0 : kNotFound;
}

KPT_FAKE_EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char* address, void** device) {
  return find_device("nvmlDeviceGetHandleByPciBusId_v2", "pci", address, device);
}

KPT_FAKE_EXPORT int nvmlDeviceGetMemoryInfo(void* device, Memory* memory) {
  const int index = index_of(device);
  if (const int code = spec().enter("nvmlDeviceGetMemoryInfo", index, kNotFound); code != 0) return code;
  const nlohmann::json& json = spec().device(index);
  if (!json.contains("memory_free")) return kNotSupported;
  memory->total = json.value("memory_total", 0ULL);
  memory->free = json["memory_free"].get<unsigned long long>();
  memory->used = memory->total - memory->free;
  return 0;
}

KPT_FAKE_EXPORT int nvmlDeviceGetMaxClockInfo(void* device, int type, unsigned* mhz) {
  constexpr int kSm = 1;
  constexpr int kMemory = 2;
  const int index = index_of(device);
  if (const int code = spec().enter("nvmlDeviceGetMaxClockInfo", index, kNotFound); code != 0) return code;
  const char* key = type == kSm ? "clock_sm" : "clock_memory";
  if ((type != kSm && type != kMemory) || !spec().device(index).contains(key)) return kNotSupported;
  *mhz = spec().device(index)[key].get<unsigned>();
  return 0;
}

KPT_FAKE_EXPORT int nvmlDeviceGetClockInfo(void* device, int type, unsigned* mhz) {
  return get_number("nvmlDeviceGetClockInfo", type == 1 ? "clock_sm_now" : "clock_memory_now", device, mhz);
}

KPT_FAKE_EXPORT int nvmlDeviceGetUtilizationRates(void* device, unsigned* rates) {
  rates[1] = 0;
  return get_number("nvmlDeviceGetUtilizationRates", "utilization", device, rates);
}

KPT_FAKE_EXPORT int nvmlDeviceGetTemperature(void* device, int /*sensor*/, unsigned* celsius) {
  return get_number("nvmlDeviceGetTemperature", "temperature", device, celsius);
}

KPT_FAKE_EXPORT int nvmlDeviceGetPowerUsage(void* device, unsigned* milliwatts) {
  return get_number("nvmlDeviceGetPowerUsage", "power", device, milliwatts);
}

KPT_FAKE_EXPORT int nvmlDeviceGetEnforcedPowerLimit(void* device, unsigned* milliwatts) {
  return get_number("nvmlDeviceGetEnforcedPowerLimit", "power_limit", device, milliwatts);
}

KPT_FAKE_EXPORT int nvmlDeviceGetEccMode(void* device, unsigned* current, unsigned* pending) {
  return get_state("nvmlDeviceGetEccMode", "ecc", device, current, pending);
}

KPT_FAKE_EXPORT int nvmlDeviceGetMigMode(void* device, unsigned* current, unsigned* pending) {
  return get_state("nvmlDeviceGetMigMode", "mig", device, current, pending);
}
