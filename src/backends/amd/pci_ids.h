// AMD's PCI device ids, for machines without ROCm.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace kpt {

struct AmdPciId {
  std::uint16_t device;
  std::string_view gfx_target;
  std::string_view product;  // of the family when one id serves several cards
};

// nullptr for an id that is not in the table.
const AmdPciId* find_amd_pci_id(std::uint16_t device);
// Sorted by id.
std::span<const AmdPciId> amd_pci_ids();

}  // namespace kpt
