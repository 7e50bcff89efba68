#include <algorithm>

#include <fmt/format.h>

#include "backends/amd/detect_amd.h"
#include "backends/cpu/detect_cpu.h"
#include "backends/nvidia/detect_nvidia.h"
#include "backends/tpu/detect_tpu.h"
#include "backends/xla/find_plugins.h"
#include "base/build_info.h"
#include "base/text.h"
#include "device/detection_context.h"
#include "device/hardware.h"
#include "device/python_environments.h"
#include "kpt/device.h"

namespace kpt {
namespace {

DetectionContext make_context(const DetectOptions& options) {
  DetectionContext context;
  context.environment = Environment::from_process();
  context.files = SystemFiles(context.environment.find("KPT_SYSTEM_ROOT").value_or("/"));
  context.probe_time_limit = options.probe_time_limit;
  const std::string torch_dir = context.environment.find("KPT_TORCH_DIR").value_or(std::string(build_info().torch_dir));
  context.site_packages = find_site_packages(context.environment, torch_dir);
  return context;
}

std::string reason_of(const Finding& finding) {
  if (finding.presence == Presence::kPresent) return "";
  return finding.remedy.empty() ? finding.reason : finding.reason + "; " + finding.remedy;
}

DeviceInfo describe_cpu(const DetectionContext& context) {
  const CpuReport cpu = detect_cpu(context);
  return {"cpu", cpu.model, cpu.architecture, cpu.memory_limit_bytes.value_or(cpu.memory_total_bytes), true, ""};
}

// What a vendor's detection came to: its devices, and the reason when there are none.
struct VendorDevices {
  std::vector<DeviceInfo> devices;
  std::string reason;
};

VendorDevices nvidia_devices(const DetectionContext& context) {
  const NvidiaReport report = detect_nvidia(context);
  VendorDevices found{{}, reason_of(report.finding)};
  for (const NvidiaGpu& gpu : report.gpus) {
    found.devices.push_back({fmt::format("nvidia:{}", gpu.index), gpu.name,
                             fmt::format("sm_{}{} {}", gpu.capability_major, gpu.capability_minor, gpu.architecture),
                             gpu.memory_total_bytes, found.reason.empty(), found.reason});
  }
  return found;
}

VendorDevices amd_devices(const DetectionContext& context) {
  const AmdReport report = detect_amd(context);
  VendorDevices found{{}, reason_of(report.finding)};
  for (const AmdGpu& gpu : report.gpus) {
    found.devices.push_back({fmt::format("amd:{}", gpu.index), gpu.name, gpu.gfx_target + " " + gpu.architecture,
                             gpu.memory_total_bytes, found.reason.empty(), found.reason});
  }
  return found;
}

VendorDevices tpu_devices(const DetectionContext& context) {
  const TpuReport report = detect_tpu(context);
  VendorDevices found{{}, reason_of(report.finding)};
  for (int chip = 0; chip < report.chips; ++chip) {
    found.devices.push_back({fmt::format("tpu:{}", chip), "Google TPU " + report.generation, report.generation,
                             report.hbm_bytes_per_chip, found.reason.empty(), found.reason});
  }
  return found;
}

VendorDevices xla_devices(const DetectionContext& context) {
  VendorDevices found{{}, "no PJRT plugin of that name was found"};
  for (const PjrtPlugin& plugin : detect_plugins(context)) {
    const std::string reason = reason_of(plugin.finding);
    found.devices.push_back({"xla:" + plugin.name, "PJRT plugin " + plugin.path,
                             fmt::format("PJRT {}.{}", plugin.api_major, plugin.api_minor), 0, reason.empty(), reason});
  }
  return found;
}

struct VendorRow {
  std::string_view prefix;
  Vendor vendor;
  VendorDevices (*detect)(const DetectionContext&);
};

constexpr std::array kVendors = {
    VendorRow{"nvidia", Vendor::kNvidia, &nvidia_devices},
    VendorRow{"amd", Vendor::kAmd, &amd_devices},
    VendorRow{"tpu", Vendor::kTpu, &tpu_devices},
    VendorRow{"xla", Vendor::kNone, &xla_devices},
};

}  // namespace

std::vector<DeviceInfo> list_devices(const DetectOptions& options) {
  const DetectionContext context = make_context(options);
  std::vector<DeviceInfo> devices = {describe_cpu(context)};
  for (const VendorRow& row : kVendors) std::ranges::move(row.detect(context).devices, std::back_inserter(devices));
  return devices;
}

Result<DeviceInfo> find_device(std::string_view name, const DetectOptions& options) {
  const DetectionContext context = make_context(options);
  if (name == "cpu") return describe_cpu(context);
  const auto colon = name.find(':');
  const auto row = std::ranges::find(kVendors, name.substr(0, colon), &VendorRow::prefix);
  const std::string_view rest = colon == std::string_view::npos ? std::string_view() : name.substr(colon + 1);
  const bool valid = row != kVendors.end() && !rest.empty() && (row->prefix == "xla" || parse_uint(rest).has_value());
  if (!valid) {
    return Status(StatusCode::kInvalidArgument,
                  fmt::format("'{}' is no device name; valid are cpu, nvidia:N, amd:N, tpu:N and xla:PLUGIN", name));
  }
  VendorDevices found = row->detect(context);
  const auto device = std::ranges::find(found.devices, name, &DeviceInfo::name);
  if (device != found.devices.end() && device->usable) return std::move(*device);
  std::string reason = device != found.devices.end() ? device->reason : found.reason;
  if (reason.empty()) reason = fmt::format("this machine has {} of that kind", found.devices.size());
  return Status(StatusCode::kDeviceNotAvailable, fmt::format("{} cannot be used: {}", name, reason), row->vendor);
}

DeviceInfo require_device(std::string_view name, const DetectOptions& options) { return find_device(name, options).value(); }

}  // namespace kpt
