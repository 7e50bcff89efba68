#include <algorithm>

#include <fmt/format.h>

#include "api/detection.h"
#include "backends/amd/detect_amd.h"
#include "backends/cpu/detect_cpu.h"
#include "backends/nvidia/detect_nvidia.h"
#include "backends/tpu/detect_tpu.h"
#include "backends/xla/find_plugins.h"
#include "backends/xla/plugin_names.h"
#include "base/text.h"
#include "device/hardware.h"
#include "kpt/device.h"

namespace kpt {
namespace {

struct Setting {
  Config config;
  DetectionContext context;
};

Result<Setting> make_setting() {
  const Environment environment = Environment::from_process();
  KPT_ASSIGN_OR_RETURN(Config config, load_config({}, environment));
  SystemFiles files(environment.find("KPT_SYSTEM_ROOT").value_or("/"));
  DetectionContext context = make_detection_context(config, environment, std::move(files));
  return Setting{std::move(config), std::move(context)};
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
  const std::vector<PjrtPlugin> plugins = detect_plugins(context);
  const std::vector<std::string> names = name_xla_devices(plugins);
  for (std::size_t i = 0; i < plugins.size(); ++i) {
    const PjrtPlugin& plugin = plugins[i];
    const std::string reason = reason_of(plugin.finding);
    found.devices.push_back({names[i], "PJRT plugin " + plugin.path,
                             fmt::format("PJRT {}.{}", plugin.api_major, plugin.api_minor), 0, reason.empty(), reason});
  }
  return found;
}

struct VendorRow {
  std::string_view prefix;
  std::string_view option_word;  // in option probe.backends
  Vendor vendor;
  VendorDevices (*detect)(const DetectionContext&);
};

constexpr std::array kVendors = {
    VendorRow{"nvidia", "nvidia", Vendor::kNvidia, &nvidia_devices},
    VendorRow{"amd", "amd", Vendor::kAmd, &amd_devices},
    VendorRow{"tpu", "tpu", Vendor::kTpu, &tpu_devices},
    VendorRow{"xla", "pjrt", Vendor::kNone, &xla_devices},
};

VendorDevices detect(const VendorRow& row, const Setting& setting) {
  if (may_probe(setting.config, row.option_word)) return row.detect(setting.context);
  return {{}, fmt::format("option probe.backends leaves out {}", row.option_word)};
}

}  // namespace

Result<std::vector<DeviceInfo>> list_devices() {
  KPT_ASSIGN_OR_RETURN(const Setting setting, make_setting());
  std::vector<DeviceInfo> devices = {describe_cpu(setting.context)};
  for (const VendorRow& row : kVendors) std::ranges::move(detect(row, setting).devices, std::back_inserter(devices));
  return devices;
}

Result<DeviceInfo> find_device(std::string_view name) {
  KPT_ASSIGN_OR_RETURN(const Setting setting, make_setting());
  if (name == "cpu") return describe_cpu(setting.context);
  const auto colon = name.find(':');
  const auto row = std::ranges::find(kVendors, name.substr(0, colon), &VendorRow::prefix);
  const std::string_view rest = colon == std::string_view::npos ? std::string_view() : name.substr(colon + 1);
  const bool valid = row != kVendors.end() && !rest.empty() && (row->prefix == "xla" || parse_uint(rest).has_value());
  if (!valid) {
    return Status(StatusCode::kInvalidArgument,
                  fmt::format("'{}' is no device name; valid are cpu, nvidia:N, amd:N, tpu:N and xla:PLUGIN", name));
  }
  VendorDevices found = detect(*row, setting);
  const auto device = std::ranges::find(found.devices, name, &DeviceInfo::name);
  if (device != found.devices.end() && device->usable) return std::move(*device);
  std::string reason = device != found.devices.end() ? device->reason : found.reason;
  if (reason.empty()) reason = fmt::format("this machine has {} of that kind", found.devices.size());
  return Status(StatusCode::kDeviceNotAvailable, fmt::format("{} cannot be used: {}", name, reason), row->vendor);
}

DeviceInfo require_device(std::string_view name) { return find_device(name).value(); }

}  // namespace kpt
