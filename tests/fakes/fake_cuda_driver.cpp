// libcuda.so.1 as a JSON file tells it (KPT_FAKE_CUDA). Keys of a device: name, uuid (32 hexadecimal digits with or
// without dashes), pci, capability [major, minor], multiprocessors, threads_per_block, shared_memory_per_block,
// memory_total. "count" overrides the number of devices.
#include <array>
#include <cstddef>
#include <map>

#include "fake_spec.h"

namespace {

constexpr int kInvalidDevice = 101;
constexpr int kInvalidValue = 1;

fake::Spec& spec() {
  static fake::Spec instance("KPT_FAKE_CUDA");
  return instance;
}

struct Uuid {
  std::array<unsigned char, 16> bytes;
};

}  // namespace

KPT_FAKE_EXPORT int cuInit(unsigned) { return spec().enter("cuInit"); }

KPT_FAKE_EXPORT int cuDriverGetVersion(int* version) {
  *version = spec().json().value("version", 0);
  return spec().enter("cuDriverGetVersion");
}

KPT_FAKE_EXPORT int cuDeviceGetCount(int* count) {
  *count = spec().json().value("count", spec().device_count());
  return spec().enter("cuDeviceGetCount");
}

KPT_FAKE_EXPORT int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return spec().enter("cuDeviceGet", ordinal, kInvalidDevice);
}

KPT_FAKE_EXPORT int cuDeviceGetName(char* name, int length, int device) {
  if (const int code = spec().enter("cuDeviceGetName", device, kInvalidDevice); code != 0) return code;
  fake::copy_text(spec().device(device).value("name", ""), name, length);
  return 0;
}

KPT_FAKE_EXPORT int cuDeviceGetUuid_v2(Uuid* uuid, int device) {
  if (const int code = spec().enter("cuDeviceGetUuid_v2", device, kInvalidDevice); code != 0) return code;
  std::string digits;
  for (const char c : spec().device(device).value("uuid", "")) {
    if (c != '-') digits += c;
  }
  digits.resize(32, '0');
  for (std::size_t i = 0; i < uuid->bytes.size(); ++i) {
    uuid->bytes[i] = static_cast<unsigned char>(std::stoul(digits.substr(2 * i, 2), nullptr, 16));
  }
  return 0;
}

KPT_FAKE_EXPORT int cuDeviceGetAttribute(int* value, int attribute, int device) {
  if (const int code = spec().enter("cuDeviceGetAttribute", device, kInvalidDevice); code != 0) return code;
  const nlohmann::json& json = spec().device(device);
  const auto capability = json.value("capability", std::array<int, 2>{0, 0});
  const std::map<int, int> values = {{1, json.value("threads_per_block", 1024)},
                                     {8, json.value("shared_memory_per_block", 49152)},
                                     {16, json.value("multiprocessors", 0)},
                                     {75, capability[0]},
                                     {76, capability[1]}};
  const auto found = values.find(attribute);
  if (found == values.end()) return kInvalidValue;
  *value = found->second;
  return 0;
}

KPT_FAKE_EXPORT int cuDeviceTotalMem_v2(std::size_t* bytes, int device) {
  if (const int code = spec().enter("cuDeviceTotalMem_v2", device, kInvalidDevice); code != 0) return code;
  *bytes = spec().device(device).value("memory_total", std::size_t{0});
  return 0;
}

KPT_FAKE_EXPORT int cuDeviceGetPCIBusId(char* text, int length, int device) {
  if (const int code = spec().enter("cuDeviceGetPCIBusId", device, kInvalidDevice); code != 0) return code;
  fake::copy_text(spec().device(device).value("pci", ""), text, length);
  return 0;
}

KPT_FAKE_EXPORT int cuGetErrorName(int error, const char** text) {
  static const std::map<int, const char*> kNames = {
      {1, "CUDA_ERROR_INVALID_VALUE"},
      {3, "CUDA_ERROR_NOT_INITIALIZED"},
      {34, "CUDA_ERROR_STUB_LIBRARY"},
      {100, "CUDA_ERROR_NO_DEVICE"},
      {101, "CUDA_ERROR_INVALID_DEVICE"},
      {304, "CUDA_ERROR_OPERATING_SYSTEM"},
      {800, "CUDA_ERROR_NOT_PERMITTED"},
      {802, "CUDA_ERROR_SYSTEM_NOT_READY"},
      {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"},
      {804, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE"},
      {999, "CUDA_ERROR_UNKNOWN"},
  };
  const auto found = kNames.find(error);
  if (found == kNames.end()) return kInvalidValue;
  *text = found->second;
  return 0;
}
