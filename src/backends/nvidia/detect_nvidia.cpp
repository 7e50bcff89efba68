#include "backends/nvidia/detect_nvidia.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "backends/nvidia/driver_errors.h"
#include "base/text.h"
#include "device/hardware_json.h"
#include "device/pci.h"
#include "device/probe_process.h"
#include "device/vendor_text.h"

namespace kpt {
namespace {

constexpr std::uint16_t kNvidiaPciVendor = 0x10de;
constexpr std::string_view kControlNode = "/dev/nvidiactl";
constexpr std::string_view kInstallDriver =
    "install the NVIDIA driver, 580 or newer (Debian and Ubuntu: the package nvidia-driver), and reboot";

// What the system's own files say, whatever the driver library says.
struct SystemFacts {
  std::string kernel_module_version;  // of the loaded module
  std::vector<PciDevice> gpus;
  std::string locked_node;  // a device node that is there but may not be opened
  bool has_control_node = false;

  bool any_hardware() const { return !kernel_module_version.empty() || !gpus.empty() || has_control_node; }
};

bool looks_like_version(std::string_view word) {
  return word.find('.') != std::string_view::npos &&
         std::ranges::all_of(word, [](char c) { return c == '.' || (c >= '0' && c <= '9'); });
}

// "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  Tue …", with words in between for the open module.
std::string parse_kernel_module_version(std::string_view text) {
  const auto lines = split(text, '\n');
  if (lines.empty() || !lines.front().starts_with("NVRM version:")) return {};
  for (const std::string_view word : split(lines.front(), ' ')) {
    if (looks_like_version(word)) return printable_text(word);
  }
  return {};
}

// The nodes that compute needs: control, unified memory, one per GPU. Others (modeset, switches, capabilities) may
// rightly be closed to users.
bool is_compute_node(std::string_view name) {
  constexpr std::string_view kPrefix = "nvidia";
  if (!name.starts_with(kPrefix)) return false;
  name.remove_prefix(kPrefix.size());
  return name == "ctl" || name == "-uvm" || parse_uint(name).has_value();
}

std::string find_locked_node(const SystemFiles& files) {
  const auto names = files.list("/dev");
  if (!names.ok()) return {};
  const auto locked = std::ranges::find_if(
      *names, [&](const std::string& name) { return is_compute_node(name) && !files.can_open("/dev/" + name); });
  return locked == names->end() ? std::string() : "/dev/" + *locked;
}

SystemFacts read_facts(const SystemFiles& files) {
  SystemFacts facts;
  if (const auto text = files.read("/proc/driver/nvidia/version"); text.ok()) {
    facts.kernel_module_version = parse_kernel_module_version(*text);
  }
  for (PciDevice& device : list_pci_devices(files, kNvidiaPciVendor)) {
    if (device.base_class() == kPciDisplayClass) facts.gpus.push_back(std::move(device));
  }
  facts.has_control_node = files.exists(kControlNode);
  facts.locked_node = find_locked_node(files);
  return facts;
}

std::string describe_gpus(const std::vector<PciDevice>& gpus) {
  const PciDevice& first = gpus.front();
  const std::string others = gpus.size() > 1 ? fmt::format(" and {} more", gpus.size() - 1) : "";
  return fmt::format("an NVIDIA GPU is on the PCI bus at {}{}", first.address, others);
}

Finding without_library(const SystemFacts& facts, const Finding& probed) {
  if (!facts.kernel_module_version.empty()) {
    return {Presence::kBroken,
            fmt::format("the NVIDIA kernel module {} is loaded, but the driver library is missing: {}",
                        facts.kernel_module_version, probed.reason),
            "install the driver's libraries of the same version; in a container, start it with access to the GPUs "
            "(docker run --gpus all)"};
  }
  if (facts.gpus.empty()) {
    return {Presence::kAbsent, fmt::format("{} and no NVIDIA GPU on the PCI bus", probed.reason), ""};
  }
  if (std::ranges::all_of(facts.gpus, [](const PciDevice& gpu) { return gpu.driver == "vfio-pci"; })) {
    return {Presence::kAbsent,
            fmt::format("{}, but it is set aside for virtual machines (vfio-pci)", describe_gpus(facts.gpus)), ""};
  }
  const std::string bound = facts.gpus.front().driver.empty() ? "no driver" : "the driver " + facts.gpus.front().driver;
  return {Presence::kNotInstalled, fmt::format("{} with {}, and {}", describe_gpus(facts.gpus), bound, probed.reason),
          std::string(kInstallDriver)};
}

// The driver refused. The files often know why better than its error code does.
Finding explain_refusal(const DetectionContext& context, const SystemFacts& facts, Finding probed) {
  if (!facts.locked_node.empty()) {
    return {Presence::kBroken, fmt::format("no permission to open {}: {}", facts.locked_node, probed.reason),
            fmt::format("add this user to the group that owns it (ls -l {}), or ask the administrator to open it",
                        facts.locked_node)};
  }
  if (!facts.any_hardware()) {
    return {Presence::kAbsent, fmt::format("no NVIDIA GPU on this machine, though libcuda.so.1 is: {}", probed.reason),
            ""};
  }
  if (facts.kernel_module_version.empty() && !facts.gpus.empty()) {
    return {Presence::kBroken,
            fmt::format("{}, but the NVIDIA kernel module is not loaded: {}", describe_gpus(facts.gpus), probed.reason),
            "load it: sudo modprobe nvidia nvidia_uvm (after a kernel update, reinstall the driver first)"};
  }
  if (!facts.has_control_node) {
    return {Presence::kBroken, fmt::format("the device node {} is missing: {}", kControlNode, probed.reason),
            "create it: sudo nvidia-modprobe -c0 -u; in a container, start it with access to the GPUs"};
  }
  if (const auto visible = context.environment.find("CUDA_VISIBLE_DEVICES");
      visible && probed.reason.starts_with(kNoGpuShown)) {
    probed.reason += fmt::format("; CUDA_VISIBLE_DEVICES={}", printable_text(*visible));
    probed.remedy = "unset CUDA_VISIBLE_DEVICES or name an existing GPU in it";
  }
  return probed;
}

Finding explain_silence(const Status& failure) {
  switch (failure.code()) {
    case StatusCode::kDeadlineExceeded:
      return {Presence::kBroken, fmt::format("the NVIDIA driver does not answer: {}", failure.message()),
              "check that 'nvidia-smi' answers; if the machine is only slow, raise KPT_PROBE_TIMEOUT_MS; else reboot"};
    case StatusCode::kNotFound: return {Presence::kBroken, failure.message(), "reinstall KernelPyTorch"};
    default:
      return {Presence::kBroken,
              fmt::format("the NVIDIA driver library failed while it was asked: {}", failure.message()),
              "check that 'nvidia-smi' works; if not, reinstall the NVIDIA driver and reboot"};
  }
}

void note_hidden_gpus(const DetectionContext& context, const SystemFacts& facts, NvidiaReport& report) {
  const auto usable = std::ranges::count_if(facts.gpus, [](const PciDevice& gpu) { return gpu.driver == "nvidia"; });
  if (std::cmp_less_equal(usable, report.gpus.size())) return;
  const auto visible = context.environment.find("CUDA_VISIBLE_DEVICES");
  report.notes.push_back(
      fmt::format("{} of {} GPUs on the PCI bus are shown to this process{}", report.gpus.size(), usable,
                  visible ? fmt::format(" (CUDA_VISIBLE_DEVICES={})", printable_text(*visible)) : ""));
}

}  // namespace

NvidiaReport combine_nvidia(const DetectionContext& context, Result<NvidiaReport> probed) {
  const SystemFacts facts = read_facts(context.files);
  NvidiaReport report;
  if (probed.ok()) {
    report = std::move(probed).value();
    switch (report.finding.presence) {
      case Presence::kNotInstalled:
      case Presence::kAbsent: report.finding = without_library(facts, report.finding); break;
      case Presence::kBroken:
        // With GPUs listed the driver works and is only too old; the files add nothing to that.
        if (report.gpus.empty()) report.finding = explain_refusal(context, facts, std::move(report.finding));
        break;
      case Presence::kPresent: note_hidden_gpus(context, facts, report); break;
    }
  } else {
    report.finding = explain_silence(probed.status());
  }
  if (report.driver_version.empty()) report.driver_version = facts.kernel_module_version;
  return report;
}

NvidiaReport detect_nvidia(const DetectionContext& context) {
  const auto answer = run_probe(context.probe_options(), {"nvidia"});
  if (!answer.ok()) return combine_nvidia(context, answer.status());
  return combine_nvidia(context, parse_report<NvidiaReport>(*answer, "the probe for nvidia"));
}

}  // namespace kpt
