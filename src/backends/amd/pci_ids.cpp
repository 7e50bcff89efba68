#include "backends/amd/pci_ids.h"

#include <algorithm>
#include <array>

namespace kpt {
namespace {

// Names as in the public PCI id list. Virtual functions (VF) have ids of their own.
constexpr std::array kPciIds = {
    AmdPciId{0x1114, "gfx1152", "AMD Radeon 840M/860M"},
    AmdPciId{0x150e, "gfx1150", "AMD Radeon 880M/890M"},
    AmdPciId{0x1586, "gfx1151", "AMD Radeon 8050S/8060S"},
    AmdPciId{0x15bf, "gfx1103", "AMD Radeon Graphics (Phoenix)"},
    AmdPciId{0x15c8, "gfx1103", "AMD Radeon Graphics (Phoenix2)"},
    AmdPciId{0x163f, "gfx1033", "AMD Custom GPU 0405 (VanGogh)"},
    AmdPciId{0x164e, "gfx1036", "AMD Radeon Graphics (Raphael)"},
    AmdPciId{0x1681, "gfx1035", "AMD Radeon 680M"},
    AmdPciId{0x1900, "gfx1103", "AMD Radeon Graphics (HawkPoint)"},
    AmdPciId{0x66a0, "gfx906", "AMD Radeon Instinct (Vega 20)"},
    AmdPciId{0x66a1, "gfx906", "AMD Radeon Instinct MI50"},
    AmdPciId{0x66af, "gfx906", "AMD Radeon VII"},
    AmdPciId{0x7310, "gfx1010", "AMD Radeon Pro W5700X"},
    AmdPciId{0x7312, "gfx1010", "AMD Radeon Pro W5700"},
    AmdPciId{0x731f, "gfx1010", "AMD Radeon RX 5600/5700 series"},
    AmdPciId{0x7340, "gfx1012", "AMD Radeon RX 5500 series"},
    AmdPciId{0x7360, "gfx1011", "AMD Radeon Pro 5600M/V520"},
    AmdPciId{0x738c, "gfx908", "AMD Instinct MI100"},
    AmdPciId{0x738e, "gfx908", "AMD Instinct MI100"},
    AmdPciId{0x73a1, "gfx1030", "AMD Radeon Pro V620"},
    AmdPciId{0x73a3, "gfx1030", "AMD Radeon PRO W6800"},
    AmdPciId{0x73a5, "gfx1030", "AMD Radeon RX 6950 XT"},
    AmdPciId{0x73af, "gfx1030", "AMD Radeon RX 6900 XT"},
    AmdPciId{0x73bf, "gfx1030", "AMD Radeon RX 6800/6900 series"},
    AmdPciId{0x73df, "gfx1031", "AMD Radeon RX 6700 series"},
    AmdPciId{0x73e3, "gfx1032", "AMD Radeon PRO W6600"},
    AmdPciId{0x73ef, "gfx1032", "AMD Radeon RX 6650 XT"},
    AmdPciId{0x73ff, "gfx1032", "AMD Radeon RX 6600 series"},
    AmdPciId{0x7408, "gfx90a", "AMD Instinct MI250X"},
    AmdPciId{0x740c, "gfx90a", "AMD Instinct MI250X/MI250"},
    AmdPciId{0x740f, "gfx90a", "AMD Instinct MI210"},
    AmdPciId{0x743f, "gfx1034", "AMD Radeon RX 6400/6500 XT"},
    AmdPciId{0x7448, "gfx1100", "AMD Radeon PRO W7900"},
    AmdPciId{0x744a, "gfx1100", "AMD Radeon PRO W7900 Dual Slot"},
    AmdPciId{0x744c, "gfx1100", "AMD Radeon RX 7900 series"},
    AmdPciId{0x745e, "gfx1100", "AMD Radeon PRO W7800"},
    AmdPciId{0x7470, "gfx1101", "AMD Radeon PRO W7700"},
    AmdPciId{0x747e, "gfx1101", "AMD Radeon RX 7700 XT/7800 XT"},
    AmdPciId{0x7480, "gfx1102", "AMD Radeon RX 7600 series"},
    AmdPciId{0x7483, "gfx1102", "AMD Radeon RX 7600M series"},
    AmdPciId{0x7489, "gfx1102", "AMD Radeon PRO W7500"},
    AmdPciId{0x74a0, "gfx942", "AMD Instinct MI300A"},
    AmdPciId{0x74a1, "gfx942", "AMD Instinct MI300X"},
    AmdPciId{0x74a2, "gfx942", "AMD Instinct MI308X"},
    AmdPciId{0x74a5, "gfx942", "AMD Instinct MI325X"},
    AmdPciId{0x74a9, "gfx942", "AMD Instinct MI300X HF"},
    AmdPciId{0x74b5, "gfx942", "AMD Instinct MI300X VF"},
    AmdPciId{0x74b9, "gfx942", "AMD Instinct MI325X VF"},
    AmdPciId{0x74bd, "gfx942", "AMD Instinct MI300X HF"},
    AmdPciId{0x7550, "gfx1201", "AMD Radeon RX 9070 series"},
    AmdPciId{0x7551, "gfx1201", "AMD Radeon AI PRO R9700"},
    AmdPciId{0x7590, "gfx1200", "AMD Radeon RX 9060 XT"},
    AmdPciId{0x75a0, "gfx950", "AMD Instinct MI350X"},
    AmdPciId{0x75a3, "gfx950", "AMD Instinct MI355X"},
};

}  // namespace

std::span<const AmdPciId> amd_pci_ids() { return kPciIds; }

const AmdPciId* find_amd_pci_id(std::uint16_t device) {
  const auto* row = std::ranges::find(kPciIds, device, &AmdPciId::device);
  return row == kPciIds.end() ? nullptr : row;
}

}  // namespace kpt
