#include "device/pci.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "base/text.h"

namespace kpt {
namespace {

std::optional<std::uint32_t> read_hex(const SystemFiles& files, const std::string& path, std::uint32_t max) {
  const auto text = files.read(path);
  if (!text.ok()) return std::nullopt;
  const auto number = parse_uint(*text, 16);
  if (!number || *number > max) return std::nullopt;
  return static_cast<std::uint32_t>(*number);
}

// The name stands in uevent as "DRIVER=nvidia"; the line is missing when no driver is bound.
std::string read_driver(const SystemFiles& files, const std::string& folder) {
  constexpr std::string_view kKey = "DRIVER=";
  const auto text = files.read(folder + "/uevent");
  if (!text.ok()) return {};
  for (const std::string_view line : split(*text, '\n')) {
    if (line.starts_with(kKey)) return std::string(trim(line.substr(kKey.size())));
  }
  return {};
}

}  // namespace

std::vector<PciDevice> list_pci_devices(const SystemFiles& files, std::uint16_t vendor) {
  const std::string root = "/sys/bus/pci/devices";
  const auto addresses = files.list(root);
  std::vector<PciDevice> devices;
  if (!addresses.ok()) return devices;
  for (const std::string& address : *addresses) {
    const std::string folder = fmt::format("{}/{}", root, address);
    const auto own_vendor = read_hex(files, folder + "/vendor", 0xffff);
    if (own_vendor != vendor) continue;
    const auto device = read_hex(files, folder + "/device", 0xffff);
    const auto class_code = read_hex(files, folder + "/class", 0xffffff);
    if (!device || !class_code) continue;
    devices.push_back({address, vendor, static_cast<std::uint16_t>(*device), *class_code, read_driver(files, folder)});
  }
  std::ranges::sort(devices, {}, &PciDevice::address);
  return devices;
}

}  // namespace kpt
