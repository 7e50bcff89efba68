#include "backends/amd/hip_probe.h"

#include <array>
#include <cstddef>

#include <fmt/format.h>

#include "backends/amd/architecture.h"
#include "backends/amd/hip_api.h"
#include "base/text.h"
#include "device/vendor_text.h"

namespace kpt {
namespace {

constexpr int kMaxDevices = 64;

AmdGpu read_device(const HipApi& hip, int index, std::vector<std::string>& notes) {
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
    const auto target = hip.find_gfx_target(index, code);
    if (accept(code, "gfx target") && !target) {
      notes.push_back(fmt::format("GPU {}: HIP's device properties hold no gfx target", index));
    }
    gpu.gfx_target = target.value_or("");
  }
  describe_amd_target(gpu);
  return gpu;
}

void read_version(const HipApi& hip, AmdReport& report) {
  int version = 0;
  if (hip.runtime_get_version == nullptr || hip.runtime_get_version(&version) != kHipSuccess || version <= 0) {
    report.notes.emplace_back("the HIP runtime did not tell its version");
    return;
  }
  report.hip_runtime_version = fmt::format("{}.{}.{}", version / 10000000, version / 100000 % 100, version % 100000);
}

Finding explain_hip_error(const HipApi& hip, int code, const char* call) {
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
DeviceCount count_devices(const HipApi& hip) {
  const int init_error = hip.init(0);
  int count = 0;
  int error = hip.get_device_count(&count);
  if (init_error != kHipSuccess && error != kHipErrorNoDevice) return {0, init_error, "hipInit"};
  if (error == kHipSuccess && count <= 0) error = kHipErrorNoDevice;
  return {count, error, "hipGetDeviceCount"};
}

}  // namespace

AmdReport probe_hip_runtime(const std::vector<std::string>& libraries) {
  AmdReport report;
  const auto library = open_hip_library(libraries);
  if (library.status().code() == StatusCode::kNotFound) {
    report.finding = {Presence::kAbsent, "no HIP runtime (libamdhip64)", ""};
    return report;
  }
  if (!library.ok()) {
    report.finding = {Presence::kBroken, library.status().message(), "reinstall ROCm: a library it needs is missing"};
    return report;
  }
  const HipApi hip = HipApi::load(*library);
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
