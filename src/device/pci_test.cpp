#include "device/pci.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "support/hardware_fixture.h"

namespace kpt {
namespace {

TEST(PciDevices, ListsOneVendorWithItsDriver) {
  const auto fixture = testing::HardwareFixture::parse(R"({
    "description": "two vendors",
    "files": {
      "/sys/bus/pci/devices/0000:03:00.0/vendor": "0x10de\n",
      "/sys/bus/pci/devices/0000:03:00.0/device": "0x2335\n",
      "/sys/bus/pci/devices/0000:03:00.0/class": "0x030200\n",
      "/sys/bus/pci/devices/0000:03:00.0/uevent": ["PCI_CLASS=30200", "DRIVER=nvidia", "PCI_ID=10DE:2335"],
      "/sys/bus/pci/devices/0000:01:00.0/vendor": "0x1002\n",
      "/sys/bus/pci/devices/0000:01:00.0/device": "0x74a1\n",
      "/sys/bus/pci/devices/0000:01:00.0/class": "0x120000\n",
      "/sys/bus/pci/devices/0000:01:00.0/uevent": "PCI_CLASS=120000\n"
    },
    "expect": {}
  })",
                                                       "two vendors");
  const SystemFiles files = fixture.context().files;
  EXPECT_EQ(list_pci_devices(files, 0x10de),
            (std::vector<PciDevice>{{"0000:03:00.0", 0x10de, 0x2335, 0x030200, "nvidia"}}));
  const auto amd = list_pci_devices(files, 0x1002);
  ASSERT_EQ(amd.size(), 1U);
  EXPECT_EQ(amd[0].base_class(), kPciAcceleratorClass);
  EXPECT_EQ(amd[0].driver, "");
}

TEST(PciDevices, GarbledEntriesAreLeftOut) {
  const auto fixture = testing::HardwareFixture::parse(R"({
    "description": "numbers that are none",
    "files": {
      "/sys/bus/pci/devices/0000:01:00.0/vendor": "0x10de",
      "/sys/bus/pci/devices/0000:01:00.0/device": "zzzz",
      "/sys/bus/pci/devices/0000:01:00.0/class": "0x030200",
      "/sys/bus/pci/devices/0000:02:00.0/vendor": "0x10de",
      "/sys/bus/pci/devices/0000:02:00.0/device": "0x1ffff",
      "/sys/bus/pci/devices/0000:02:00.0/class": "0x030200",
      "/sys/bus/pci/devices/0000:04:00.0/vendor": ""
    },
    "expect": {}
  })",
                                                       "garbled");
  EXPECT_TRUE(list_pci_devices(fixture.context().files, 0x10de).empty());
}

TEST(PciDevices, NoBusIsAnEmptyList) {
  EXPECT_TRUE(list_pci_devices(SystemFiles("/nonexistent_root"), 0x10de).empty());
}

}  // namespace
}  // namespace kpt
