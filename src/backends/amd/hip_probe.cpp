#include "backends/amd/hip_probe.h"

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "backends/amd/architecture.h"
#include "base/dynamic_library.h"
#include "base/text.h"
#include "device/vendor_text.h"

namespace kpt {
namespace {

constexpr int kHipSuccess = 0;
constexpr int kHipErrorNoDevice = 100;
constexpr int kMaxDevices = 64;

// Own declarations of HIP's C interface, the same in ROCm 5 to 7. Optional functions may be nullptr.
struct HipRuntime {
  int (*init)(unsigned) = nullptr;
  int (*runtime_get_version)(int*) = nullptr;
  int (*get_device_count)(int*) = nullptr;
  int (*device_get_name)(char*, int, int) = nullptr;
  int (*device_total_mem)(std::size_t*, int) = nullptr;
  int (*device_get_pci_bus_id)(char*, int, int) = nullptr;
  int (*get_device_properties)(void*, int) = nullptr;
  const char* (*get_error_string)(int) = nullptr;

  std::string error_text(int code) const {
    const char* text = get_error_string != nullptr ? get_error_string(code) : nullptr;
    if (text == nullptr) return fmt::format("HIP error {}", code);
    return fmt::format("{} (HIP error {})", printable_text(std::string(text)), code);
  }
};

template <typename Function>
void load(const DynamicLibrary& library, const char* name, Function& function) {
  function = library.find<Function>(name);
}

HipRuntime load_runtime(const DynamicLibrary& library) {
  HipRuntime hip;
  load(library, "hipInit", hip.init);
  load(library, "hipRuntimeGetVersion", hip.runtime_get_version);
  load(library, "hipGetDeviceCount", hip.get_device_count);
  load(library, "hipDeviceGetName", hip.device_get_name);
  load(library, "hipDeviceTotalMem", hip.device_total_mem);
  load(library, "hipDeviceGetPCIBusId", hip.device_get_pci_bus_id);
  load(library, "hipGetDevicePropertiesR0600", hip.get_device_properties);
  if (hip.get_device_properties == nullptr) load(library, "hipGetDeviceProperties", hip.get_device_properties);
  load(library, "hipGetErrorString", hip.get_error_string);
  return hip;
}

// "gfx942" at the start of `text`; feature suffixes (":sramecc+") are not part of it.
std::optional<std::string> parse_target(std::string_view text) {
  constexpr std::string_view kPrefix = "gfx";
  constexpr std::size_t kMaxDigits = 6;
  std::size_t end = kPrefix.size();
  while (end < text.size() && end < kPrefix.size() + kMaxDigits &&
         ((text[end] >= '0' && text[end] <= '9') || (text[end] >= 'a' && text[end] <= 'f'))) {
    ++end;
  }
  if (end < kPrefix.size() + 3) return std::nullopt;
  return std::string(text.substr(0, end));
}

// The property structure differs between ROCm 5 and 6 in size and order, and gcnArchName with it, so we look for the
// text instead of an offset. The buffer is ten times the largest structure known (about 1.5 kB). The product name comes
// first in all versions and is passed over, for it could contain "gfx" itself.
std::optional<std::string> read_target(const HipRuntime& hip, int device, int& code) {
  constexpr std::size_t kBufferBytes = 16384;
  constexpr std::size_t kNameBytes = 256;
  alignas(16) std::array<char, kBufferBytes> buffer{};
  code = hip.get_device_properties(buffer.data(), device);
  if (code != kHipSuccess) return std::nullopt;
  std::string_view bytes(buffer.data(), buffer.size());
  bytes.remove_prefix(kNameBytes);
  for (auto at = bytes.find("gfx"); at != std::string_view::npos; at = bytes.find("gfx", at + 1)) {
    if (auto target = parse_target(bytes.substr(at))) return target;
  }
  return std::nullopt;
}

AmdGpu read_device(const HipRuntime& hip, int index, std::vector<std::string>& notes) {
  AmdGpu gpu;
  gpu.index = index;
  const auto accept = [&](int code, const char* what) {
    if (code != kHipSuccess) {
      notes.push_back(fmt::format("GPU {}: HIP did not tell the {}: {}", index, what, hip.error_text(code)));
    }
    return code == kHipSuccess;
  };
  std::array<char, 256> text{};
  const int length = static_cast<int>(text.size()) - 1;
  if (hip.device_get_name != nullptr && accept(hip.device_get_name(text.data(), length, index), "name")) {
    gpu.name = printable_text(text);
  }
  text.fill('\0');
  if (hip.device_get_pci_bus_id != nullptr &&
      accept(hip.device_get_pci_bus_id(text.data(), length, index), "PCI address")) {
    gpu.pci_bus_id = to_lower(printable_text(text));
  }
  std::size_t total = 0;
  if (hip.device_total_mem != nullptr && accept(hip.device_total_mem(&total, index), "memory size")) {
    gpu.memory_total_bytes = total;
  }
  if (hip.get_device_properties != nullptr) {
    int code = kHipSuccess;
    const auto target = read_target(hip, index, code);
    if (accept(code, "gfx target") && !target) {
      notes.push_back(fmt::format("GPU {}: HIP's device properties hold no gfx target", index));
    }
    gpu.gfx_target = target.value_or("");
  }
  describe_amd_target(gpu);
  return gpu;
}

void read_version(const HipRuntime& hip, AmdReport& report) {
  int version = 0;
  if (hip.runtime_get_version == nullptr || hip.runtime_get_version(&version) != kHipSuccess || version <= 0) {
    report.notes.emplace_back("the HIP runtime did not tell its version");
    return;
  }
  report.hip_runtime_version = fmt::format("{}.{}.{}", version / 10000000, version / 100000 % 100, version % 100000);
}

Finding explain_hip_error(const HipRuntime& hip, int code, const char* call) {
  if (code == kHipErrorNoDevice) {
    return {Presence::kBroken,
            fmt::format("the HIP runtime shows no GPU to this process: {} returned {}", call, hip.error_text(code)),
            "check 'rocminfo'; in a container, start it with --device /dev/kfd --device /dev/dri"};
  }
  return {Presence::kBroken, fmt::format("the HIP runtime failed: {} returned {}", call, hip.error_text(code)),
          "check that 'rocminfo' works; if not, reinstall ROCm and the amdgpu kernel driver"};
}

struct DeviceCount {
  int count = 0;
  int error = kHipSuccess;
  const char* failed_call = "";
};

// Without a GPU hipInit says "invalid device" in some versions (5.2), while the count says what is meant: no device.
DeviceCount count_devices(const HipRuntime& hip) {
  const int init_error = hip.init(0);
  int count = 0;
  int error = hip.get_device_count(&count);
  if (init_error != kHipSuccess && error != kHipErrorNoDevice) return {0, init_error, "hipInit"};
  if (error == kHipSuccess && count <= 0) error = kHipErrorNoDevice;
  return {count, error, "hipGetDeviceCount"};
}

// Opens the first library that is there; otherwise sets the finding.
std::optional<DynamicLibrary> open_first(const std::vector<std::string>& libraries, AmdReport& report) {
  for (const std::string& name : libraries) {
    auto library = DynamicLibrary::open(name);
    if (library.ok()) return std::move(library).value();
    if (library.status().code() == StatusCode::kNotFound) continue;
    report.finding = {Presence::kBroken, library.status().message(), "reinstall ROCm: a library it needs is missing"};
    return std::nullopt;
  }
  report.finding = {Presence::kAbsent, "no HIP runtime (libamdhip64)", ""};
  return std::nullopt;
}

}  // namespace

AmdReport probe_hip_runtime(const std::vector<std::string>& libraries) {
  AmdReport report;
  const auto library = open_first(libraries, report);
  if (!library) return report;
  const HipRuntime hip = load_runtime(*library);
  if (hip.init == nullptr || hip.get_device_count == nullptr) {
    report.finding = {Presence::kBroken, fmt::format("{} lacks hipInit or hipGetDeviceCount", library->path()),
                      "reinstall ROCm"};
    return report;
  }
  const DeviceCount devices = count_devices(hip);
  read_version(hip, report);
  if (devices.error != kHipSuccess) {
    report.finding = explain_hip_error(hip, devices.error, devices.failed_call);
    return report;
  }
  int count = devices.count;
  if (count > kMaxDevices) {
    report.notes.push_back(fmt::format("HIP claims {} GPUs; only the first {} were asked", count, kMaxDevices));
    count = kMaxDevices;
  }
  for (int index = 0; index < count; ++index) report.gpus.push_back(read_device(hip, index, report.notes));
  report.source = "hip";
  report.finding.presence = Presence::kPresent;
  return report;
}

}  // namespace kpt
