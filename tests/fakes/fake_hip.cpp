// libamdhip64 as a JSON file tells it (KPT_FAKE_HIP). Keys of a device: name, gfx ("gfx942:sramecc+:xnack-"), pci,
// memory_total. "properties_offset" moves gcnArchName inside the property structure, which differs between versions.
#include <cstddef>
#include <cstring>

#include "fake_spec.h"

namespace {

constexpr int kInvalidDevice = 101;
constexpr std::size_t kPropertyBytes = 1472;  // of hipDeviceProp_tR0600

fake::Spec& spec() {
  static fake::Spec instance("KPT_FAKE_HIP");
  return instance;
}

int fill_properties(const char* function, char* properties, int device) {
  if (const int code = spec().enter(function, device, kInvalidDevice); code != 0) return code;
  const nlohmann::json& json = spec().device(device);
  std::memset(properties, 0, kPropertyBytes);
  fake::copy_text(json.value("name", ""), properties, 256);
  const auto offset = spec().json().value("properties_offset", std::size_t{1160});
  fake::copy_text(json.value("gfx", ""), properties + offset, 256);
  return 0;
}

}  // namespace

KPT_FAKE_EXPORT int hipInit(unsigned) { return spec().enter("hipInit"); }

KPT_FAKE_EXPORT int hipRuntimeGetVersion(int* version) {
  *version = spec().json().value("version", 0);
  return spec().enter("hipRuntimeGetVersion");
}

KPT_FAKE_EXPORT int hipGetDeviceCount(int* count) {
  *count = spec().json().value("count", spec().device_count());
  return spec().enter("hipGetDeviceCount");
}

KPT_FAKE_EXPORT int hipDeviceGetName(char* name, int length, int device) {
  if (const int code = spec().enter("hipDeviceGetName", device, kInvalidDevice); code != 0) return code;
  fake::copy_text(spec().device(device).value("name", ""), name, length);
  return 0;
}

KPT_FAKE_EXPORT int hipDeviceTotalMem(std::size_t* bytes, int device) {
  if (const int code = spec().enter("hipDeviceTotalMem", device, kInvalidDevice); code != 0) return code;
  *bytes = spec().device(device).value("memory_total", std::size_t{0});
  return 0;
}

KPT_FAKE_EXPORT int hipDeviceGetPCIBusId(char* text, int length, int device) {
  if (const int code = spec().enter("hipDeviceGetPCIBusId", device, kInvalidDevice); code != 0) return code;
  fake::copy_text(spec().device(device).value("pci", ""), text, length);
  return 0;
}

KPT_FAKE_EXPORT int hipGetDevicePropertiesR0600(char* properties, int device) {
  return fill_properties("hipGetDevicePropertiesR0600", properties, device);
}

KPT_FAKE_EXPORT const char* hipGetErrorString(int error) {
  switch (error) {
    case 0: return "no error";
    case 3: return "initialization error";
    case 100: return "no ROCm-capable device is detected";
    case 101: return "invalid device ordinal";
    default: return "unknown error";
  }
}
