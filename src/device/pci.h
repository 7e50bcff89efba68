// Devices on the PCI bus, as the kernel lists them below /sys/bus/pci/devices. What hardware is there even when none of
// its software is.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/files.h"

namespace kpt {

struct PciDevice {
  std::string address;  // "0000:1b:00.0"
  std::uint16_t vendor = 0;
  std::uint16_t device = 0;
  std::uint32_t class_code = 0;  // 24 bits: base class, subclass, interface
  std::string driver;            // bound kernel driver: "nvidia", "vfio-pci"; empty when none

  std::uint8_t base_class() const { return static_cast<std::uint8_t>(class_code >> 16U); }
  bool operator==(const PciDevice&) const = default;
};

constexpr std::uint8_t kPciDisplayClass = 0x03;      // VGA and 3D controllers
constexpr std::uint8_t kPciAcceleratorClass = 0x12;  // processing accelerators

// The devices of `vendor`, by address. A device whose files cannot be read or make no sense is left out; without a bus
// (containers, some virtual machines) the list is empty.
std::vector<PciDevice> list_pci_devices(const SystemFiles& files, std::uint16_t vendor);

}  // namespace kpt
