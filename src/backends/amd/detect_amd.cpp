#include "backends/amd/detect_amd.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "backends/amd/architecture.h"
#include "backends/amd/kfd.h"
#include "backends/amd/pci_ids.h"
#include "base/text.h"
#include "device/hardware_json.h"
#include "device/pci.h"
#include "device/probe_process.h"
#include "device/vendor_text.h"

namespace kpt {
namespace {

constexpr std::uint16_t kAmdPciVendor = 0x1002;
constexpr std::string_view kKfdNode = "/dev/kfd";

std::string read_rocm_version(const DetectionContext& context) {
  const std::string folder = context.environment.find("ROCM_PATH").value_or("/opt/rocm");
  const auto text = context.files.read(folder + "/.info/version");
  if (!text.ok()) return {};
  // "6.4.1-83": the part after the dash is the build.
  return printable_text(std::string_view(*text).substr(0, text->find('-')));
}

std::vector<PciDevice> list_amd_gpus(const SystemFiles& files) {
  std::vector<PciDevice> devices = list_pci_devices(files, kAmdPciVendor);
  std::erase_if(devices, [](const PciDevice& device) {
    return device.base_class() != kPciDisplayClass && device.base_class() != kPciAcceleratorClass;
  });
  return devices;
}

std::vector<AmdGpu> gpus_from_pci(const std::vector<PciDevice>& devices, std::vector<std::string>& notes) {
  std::vector<AmdGpu> gpus;
  for (const PciDevice& device : devices) {
    AmdGpu gpu;
    gpu.index = static_cast<int>(gpus.size());
    gpu.pci_bus_id = device.address;
    if (const AmdPciId* id = find_amd_pci_id(device.device); id != nullptr) {
      gpu.name = id->product;
      gpu.gfx_target = id->gfx_target;
      describe_amd_target(gpu);
    } else {
      gpu.name = fmt::format("AMD device {:#06x}", device.device);
      notes.push_back(fmt::format("{}: the PCI id {:#06x} is not in our table, so its gfx target is unknown",
                                  device.address, device.device));
    }
    gpus.push_back(std::move(gpu));
  }
  return gpus;
}

// The first node that compute needs and that is there but may not be opened.
std::string find_locked_node(const SystemFiles& files) {
  if (files.exists(kKfdNode) && !files.can_open(kKfdNode)) return std::string(kKfdNode);
  const auto names = files.list("/dev/dri");
  if (!names.ok()) return {};
  // Any open render node will do: a machine may have GPUs set aside for others.
  std::string locked;
  for (const std::string& name : *names) {
    if (!name.starts_with("renderD")) continue;
    const std::string path = "/dev/dri/" + name;
    if (files.can_open(path)) return {};
    locked = path;
  }
  return locked;
}

struct SystemFacts {
  KfdTopology kfd;
  std::vector<PciDevice> pci;
  std::string locked_node;

  bool any_hardware() const { return !kfd.gpus.empty() || !pci.empty(); }
};

// What a failure of the HIP runtime means on a machine that has AMD GPUs.
Finding explain(const DetectionContext& context, const SystemFacts& facts, const Result<AmdReport>& probed) {
  const std::string words = probed.ok() ? probed->finding.reason : probed.status().message();
  if (!facts.locked_node.empty()) {
    return {Presence::kBroken, fmt::format("no permission to open {}: {}", facts.locked_node, words),
            "add this user to the groups render and video and log in again: sudo usermod -aG render,video $USER"};
  }
  const bool not_installed = probed.ok() && probed->finding.presence == Presence::kAbsent;
  if (!facts.kfd.present) {
    const std::string driver = facts.pci.front().driver;
    return {not_installed ? Presence::kNotInstalled : Presence::kBroken,
            fmt::format("the kernel offers no compute interface (KFD) for the GPU at {}, which is bound to {}: {}",
                        facts.pci.front().address, driver.empty() ? "no driver" : driver, words),
            driver == "amdgpu" ? "to use it, install ROCm"
                               : "to use it, load the amdgpu kernel driver (sudo modprobe amdgpu) and install ROCm"};
  }
  if (!probed.ok()) {
    const bool hangs = probed.status().code() == StatusCode::kDeadlineExceeded;
    if (probed.status().code() == StatusCode::kNotFound) return {Presence::kBroken, words, "reinstall KernelPyTorch"};
    return {Presence::kBroken,
            fmt::format("the HIP runtime {}: {}", hangs ? "does not answer" : "failed while it was asked", words),
            hangs
                ? "check that 'rocminfo' answers; if the machine is only slow, raise KPT_PROBE_TIMEOUT_MS; else reboot"
                : "install a ROCm release that knows this GPU"};
  }
  if (not_installed) {
    return {Presence::kNotInstalled, words,
            "install ROCm (its package with libamdhip64) or add its lib folder to LD_LIBRARY_PATH"};
  }
  Finding finding = probed->finding;
  for (const char* name : {"HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"}) {
    if (const auto visible = context.environment.find(name)) {
      finding.reason += fmt::format(" ({}={})", name, printable_text(*visible));
      finding.remedy = fmt::format("unset {} or name an existing GPU in it", name);
    }
  }
  return finding;
}

// HIP's answer holds no compute units; the kernel knows them by PCI address.
void complete_from_kfd(const KfdTopology& kfd, AmdReport& report) {
  for (AmdGpu& gpu : report.gpus) {
    const auto same = std::ranges::find(kfd.gpus, gpu.pci_bus_id, &AmdGpu::pci_bus_id);
    if (gpu.pci_bus_id.empty() || same == kfd.gpus.end()) {
      report.notes.push_back(
          fmt::format("GPU {}: the kernel's topology does not list it, so its compute units are unknown", gpu.index));
      continue;
    }
    gpu.compute_units = same->compute_units;
    if (gpu.name.empty()) gpu.name = same->name;
    if (gpu.memory_total_bytes == 0) gpu.memory_total_bytes = same->memory_total_bytes;
    if (gpu.wavefront_size == 0) gpu.wavefront_size = same->wavefront_size;
    if (gpu.gfx_target.empty()) {
      gpu.gfx_target = same->gfx_target;
      describe_amd_target(gpu);
    }
  }
}

void list_without_hip(const DetectionContext& context, const Result<AmdReport>& probed, SystemFacts& facts,
                      AmdReport& report) {
  if (!facts.any_hardware()) {
    if (probed.ok()) {
      report.finding = {Presence::kAbsent, fmt::format("no AMD GPU on this machine: {}", report.finding.reason), ""};
    } else {
      report.finding = explain_probe_failure(probed.status(), "reinstall or remove ROCm");
    }
    return;
  }
  report.finding = explain(context, facts, probed);
  if (!facts.kfd.gpus.empty()) {
    report.source = "kfd";
    report.gpus = std::move(facts.kfd.gpus);
  } else {
    report.source = "pci";
    report.gpus = gpus_from_pci(facts.pci, report.notes);
  }
}

}  // namespace

AmdReport combine_amd(const DetectionContext& context, Result<AmdReport> probed) {
  SystemFacts facts{read_kfd_topology(context.files), list_amd_gpus(context.files), find_locked_node(context.files)};
  AmdReport report = probed.ok() ? *probed : AmdReport{};
  report.notes.insert(report.notes.end(), facts.kfd.notes.begin(), facts.kfd.notes.end());
  report.rocm_version = read_rocm_version(context);
  if (report.finding.presence == Presence::kPresent) {
    complete_from_kfd(facts.kfd, report);
  } else {
    list_without_hip(context, probed, facts, report);
  }
  return report;
}

AmdReport detect_amd(const DetectionContext& context) {
  const auto answer = run_probe(context.probe_options(), {"amd"});
  if (!answer.ok()) return combine_amd(context, answer.status());
  return combine_amd(context, parse_report<AmdReport>(*answer, "the probe for amd"));
}

}  // namespace kpt
