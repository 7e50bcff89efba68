#include <algorithm>

#include <fmt/format.h>

#include "api/detection.h"
#include "backends/amd/architecture.h"
#include "backends/amd/detect_amd.h"
#include "backends/cpu/detect_cpu.h"
#include "backends/nvidia/architecture.h"
#include "backends/nvidia/detect_nvidia.h"
#include "backends/nvidia/nvidia_backend.h"
#include "backends/tpu/detect_tpu.h"
#include "backends/tpu/libtpu.h"
#include "backends/tpu/topology_choice.h"
#include "backends/tpu/tpu_device_target.h"
#include "backends/xla/plugin_names.h"
#include "base/log.h"
#include "base/text.h"
#include "config/automatic.h"
#include "device/hardware.h"
#include "engines/aten/loader.h"
#include "engines/xla/pjrt/detect_plugins.h"
#include "kpt/device.h"

namespace kpt {
namespace {

struct Setting {
  Config config;
  DetectionContext context;
  TorchSearch torch;
};

Result<Setting> make_setting() {
  const Environment environment = Environment::from_process();
  KPT_ASSIGN_OR_RETURN(Config config, load_library_config(environment));
  SystemFiles files(environment.find("KPT_SYSTEM_ROOT").value_or("/"));
  DetectionContext context = make_detection_context(config, environment, std::move(files));
  TorchSearch torch{environment, torch_folder(config, environment).string(), context.site_packages};
  return Setting{std::move(config), std::move(context), std::move(torch)};
}

std::string reason_of(const Finding& finding) {
  if (finding.presence == Presence::kPresent) return "";
  return finding.remedy.empty() ? finding.reason : finding.reason + "; " + finding.remedy;
}

constexpr std::string_view kNewerRelease = "install a newer KernelPyTorch, or use another device";

// What a device is called, and why it cannot be used; an empty reason means that it can.
DeviceInfo make_info(std::string name, std::string description, std::string architecture, std::uint64_t memory_bytes,
                     std::string reason) {
  const bool usable = reason.empty();
  return {std::move(name), std::move(description), std::move(architecture), memory_bytes, usable, std::move(reason)};
}

DeviceInfo describe_cpu(const Setting& setting) {
  const CpuReport cpu = detect_cpu(setting.context);
  return make_info("cpu", cpu.model, cpu.architecture, cpu.memory_limit_bytes.value_or(cpu.memory_total_bytes),
                   check_aten_files(setting.torch, AtenPart::kCpu).message());
}

// What a vendor's detection came to: its devices, and the reason when there are none that can be used.
struct VendorDevices {
  std::vector<DeviceInfo> devices;
  std::string reason;
  std::vector<std::string> without_code;              // names of devices whose architecture is all that is against them
  StatusCode code = StatusCode::kDeviceNotAvailable;  // of the reason
};

// Empty where models can run on GPUs of this capability.
std::string why_without_code(const NvidiaGpu& gpu) {
  if (has_nvidia_target(gpu.capability_major, gpu.capability_minor)) return "";
  const std::string target = nvidia_target_name(gpu.capability_major, gpu.capability_minor);
  if (find_nvidia_architecture(gpu.capability_major, gpu.capability_minor) == nullptr) {
    return fmt::format("this release does not know {}; {}", target, kNewerRelease);
  }
  return fmt::format("libtorch has no code for {}; models run on Turing (sm_75) and newer", target);
}

VendorDevices nvidia_devices(const Setting& setting) {
  const NvidiaReport report = detect_nvidia(setting.context);
  VendorDevices found{{}, reason_of(report.finding), {}};
  if (found.reason.empty()) found.reason = check_aten_files(setting.torch, AtenPart::kCuda).message();
  for (const NvidiaGpu& gpu : report.gpus) {
    const std::string target = nvidia_target_name(gpu.capability_major, gpu.capability_minor);
    const std::string name = fmt::format("nvidia:{}", gpu.index);
    std::string reason = found.reason;
    if (reason.empty() && gpu.capability_major == 0) {
      reason = "the driver did not tell its compute capability; see what `nvidia-smi -q` tells, and update the driver";
    }
    if (reason.empty()) {
      reason = why_without_code(gpu);
      if (!reason.empty()) found.without_code.push_back(name);
    }
    found.devices.push_back(
        make_info(name, gpu.name, target + " " + gpu.architecture, gpu.memory_total_bytes, std::move(reason)));
  }
  return found;
}

VendorDevices amd_devices(const Setting& setting) {
  const AmdReport report = detect_amd(setting.context);
  VendorDevices found{{}, reason_of(report.finding), {}};
  for (const AmdGpu& gpu : report.gpus) {
    std::string reason = found.reason;
    if (reason.empty() && find_amd_architecture(gpu.gfx_target) == nullptr) {
      reason = fmt::format("this release has no kernels for {}; {}",
                           gpu.gfx_target.empty() ? "a GPU of unknown target" : gpu.gfx_target, kNewerRelease);
    }
    found.devices.push_back(make_info(fmt::format("amd:{}", gpu.index), gpu.name,
                                      gpu.gfx_target + " " + gpu.architecture, gpu.memory_total_bytes,
                                      std::move(reason)));
  }
  return found;
}

VendorDevices tpu_devices(const Setting& setting) {
  TpuReport report = detect_tpu(setting.context);
  VendorDevices found{{}, reason_of(report.finding), {}};
  auto chosen = apply_chosen_topology(tpu_topology(setting.config), report);
  if (chosen.ok()) {
    report = std::move(*chosen);
  } else if (found.reason.empty()) {
    found.reason = chosen.status().message();
    found.code = chosen.status().code();
  }
  if (found.reason.empty()) {
    found.reason = reason_of(ask_libtpu(setting.context, make_plugin_probe(setting.context)).finding);
  }
  found.devices = describe_tpu_devices(report, found.reason);
  return found;
}

VendorDevices xla_devices(const Setting& setting) {
  VendorDevices found{
      {},
      "no PJRT plugin of that name was found; `kpt doctor --category tpu` lists those that are here and how to "
      "get one",
      {}};
  // One that this process has open need not be asked, and libtpu would refuse a second process.
  const std::vector<PjrtPlugin> plugins = detect_plugins(setting.context, make_plugin_probe(setting.context));
  const std::vector<std::string> names = name_xla_devices(plugins);
  for (std::size_t i = 0; i < plugins.size(); ++i) {
    const PjrtPlugin& plugin = plugins[i];
    found.devices.push_back(make_info(names[i], "PJRT plugin " + plugin.path,
                                      fmt::format("PJRT {}.{}", plugin.api_major, plugin.api_minor), 0,
                                      reason_of(plugin.finding)));
  }
  return found;
}

struct VendorRow {
  std::string_view prefix;
  std::string_view option_word;  // in option probe.backends
  Vendor vendor;
  VendorDevices (*detect)(const Setting&);
};

constexpr std::array kVendors = {
    VendorRow{"nvidia", "nvidia", Vendor::kNvidia, &nvidia_devices},
    VendorRow{"amd", "amd", Vendor::kAmd, &amd_devices},
    VendorRow{"tpu", "tpu", Vendor::kTpu, &tpu_devices},
    VendorRow{"xla", "pjrt", Vendor::kNone, &xla_devices},
};

VendorDevices detect(const VendorRow& row, const Setting& setting) {
  if (may_probe(setting.config, row.option_word)) return row.detect(setting);
  return {{}, fmt::format("option probe.backends leaves out {0}; add {0} to it", row.option_word), {}};
}

}  // namespace

Result<std::vector<DeviceInfo>> list_devices() {
  KPT_ASSIGN_OR_RETURN(const Setting setting, make_setting());
  std::vector<DeviceInfo> devices = {describe_cpu(setting)};
  for (const VendorRow& row : kVendors) std::ranges::move(detect(row, setting).devices, std::back_inserter(devices));
  const auto usable = std::ranges::count_if(devices, &DeviceInfo::usable);
  log::info("devices listed", {{"found", std::to_string(devices.size())}, {"usable", std::to_string(usable)}});
  return devices;
}

Status check_device_name(std::string_view name) {
  if (name == "cpu") return {};
  const auto colon = name.find(':');
  const auto row = std::ranges::find(kVendors, name.substr(0, colon), &VendorRow::prefix);
  const std::string_view rest = colon == std::string_view::npos ? std::string_view() : name.substr(colon + 1);
  const auto number = parse_uint(rest);
  const bool numbered = number && rest == std::to_string(*number);  // 00 is the number of none
  const bool valid = row != kVendors.end() && !rest.empty() && (row->prefix == "xla" || numbered);
  if (valid) return {};
  return {StatusCode::kInvalidArgument,
          fmt::format("'{}' is no device name; valid are cpu, nvidia:N, amd:N, tpu:N and xla:PLUGIN", name)};
}

Result<DeviceInfo> find_device(std::string_view name) {
  KPT_RETURN_IF_ERROR(check_device_name(name));
  KPT_ASSIGN_OR_RETURN(const Setting setting, make_setting());
  if (name == "cpu") {
    DeviceInfo cpu = describe_cpu(setting);
    if (cpu.usable) return cpu;
    return Status(StatusCode::kDeviceNotAvailable, fmt::format("cpu cannot be used: {}", cpu.reason));
  }
  const auto row = std::ranges::find(kVendors, name.substr(0, name.find(':')), &VendorRow::prefix);
  VendorDevices found = detect(*row, setting);
  const auto device = std::ranges::find(found.devices, name, &DeviceInfo::name);
  if (device != found.devices.end() && device->usable) return std::move(*device);
  std::string reason = device != found.devices.end() ? device->reason : found.reason;
  if (reason.empty()) {
    const std::size_t count = found.devices.size();
    reason = fmt::format("this machine has {} of that kind", count);
    if (count == 1) reason += fmt::format("; it is {}", found.devices.front().name);
    if (count > 1) reason += fmt::format("; they are {} to {}", found.devices.front().name, found.devices.back().name);
  }
  const bool without_code = std::ranges::find(found.without_code, name) != found.without_code.end();
  return Status(without_code ? StatusCode::kInvalidArchitecture : found.code,
                fmt::format("{} cannot be used: {}", name, reason), row->vendor);
}

DeviceInfo require_device(std::string_view name) { return find_device(name).value(); }

}  // namespace kpt
