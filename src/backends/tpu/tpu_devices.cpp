#include "backends/tpu/tpu_devices.h"

#include <algorithm>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "base/text.h"
#include "device/pci.h"

namespace kpt {
namespace {

// Google's other devices on its virtual machines: disks, network cards (gVNIC), bridges.
bool may_be_accelerator(const PciDevice& device) {
  constexpr std::uint8_t kStorage = 0x01;
  constexpr std::uint8_t kNetwork = 0x02;
  constexpr std::uint8_t kBridge = 0x06;
  const std::uint8_t base = device.base_class();
  return base != kStorage && base != kNetwork && base != kBridge;
}

std::optional<std::uint16_t> read_subsystem(const SystemFiles& files, const std::string& address) {
  const auto text = files.read(fmt::format("/sys/bus/pci/devices/{}/subsystem_device", address));
  const auto id = text.ok() ? parse_uint(*text, 16) : std::nullopt;
  if (!id || *id > 0xffff) return std::nullopt;
  return static_cast<std::uint16_t>(*id);
}

// Sorts the Google devices into `devices`; returns the addresses of those that are, or may be, TPUs.
std::set<std::string> read_pci(TpuDevices& devices, const SystemFiles& files) {
  std::set<std::string> addresses;
  for (const PciDevice& device : list_pci_devices(files, kGooglePciVendor)) {
    const auto subsystem = read_subsystem(files, device.address);
    const TpuGeneration* generation = find_tpu_generation(device.device, subsystem.value_or(0));
    if (generation == nullptr && !may_be_accelerator(device)) continue;
    addresses.insert(device.address);
    if (generation == nullptr) {
      devices.unknown_ids.push_back(subsystem ? fmt::format("{:#06x}/{:#06x}", device.device, *subsystem)
                                              : fmt::format("{:#06x}", device.device));
      continue;
    }
    if (devices.generation != nullptr && devices.generation != generation) {
      devices.notes.push_back(fmt::format("the chip at {} is a {}, unlike the first one; it is not counted",
                                          device.address, generation->name));
      continue;
    }
    devices.generation = generation;
    ++devices.known_chips;
  }
  return addresses;
}

void add_node(TpuDevices& devices, const SystemFiles& files, std::string path) {
  const bool can_open = files.can_open(path);
  devices.nodes.push_back({std::move(path), can_open});
}

// /dev/accel0, not /dev/accel: that folder is the kernel's compute subsystem, used by other vendors.
void read_accel_nodes(TpuDevices& devices, const SystemFiles& files) {
  constexpr std::string_view kAccelPrefix = "accel";
  const auto names = files.list("/dev");
  for (const std::string& name : names.value_or({})) {
    if (name.starts_with(kAccelPrefix) && parse_uint(std::string_view(name).substr(kAccelPrefix.size()))) {
      add_node(devices, files, "/dev/" + name);
    }
  }
}

bool group_holds(const SystemFiles& files, const std::string& group, const std::set<std::string>& addresses) {
  const auto members = files.list(fmt::format("/sys/kernel/iommu_groups/{}/devices", group));
  return members.ok() &&
         std::ranges::any_of(*members, [&](const std::string& name) { return addresses.contains(name); });
}

void read_vfio_nodes(TpuDevices& devices, const SystemFiles& files, const std::set<std::string>& addresses) {
  const auto names = files.list("/dev/vfio");
  if (!names.ok() || addresses.empty()) return;
  const bool groups_known = files.exists("/sys/kernel/iommu_groups");
  for (const std::string& name : *names) {
    if (!parse_uint(name)) continue;  // "vfio" is the control node
    if (!groups_known || group_holds(files, name, addresses)) add_node(devices, files, "/dev/vfio/" + name);
  }
}

}  // namespace

TpuDevices find_tpu_devices(const SystemFiles& files) {
  TpuDevices devices;
  const std::set<std::string> addresses = read_pci(devices, files);
  read_accel_nodes(devices, files);
  read_vfio_nodes(devices, files, addresses);
  return devices;
}

}  // namespace kpt
