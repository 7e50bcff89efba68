#include "backends/cpu/arm_cores.h"

#include <algorithm>

namespace kpt {
namespace {

struct ArmCore {
  std::uint64_t implementer;
  std::uint64_t part;
  std::string_view name;
};

constexpr std::uint64_t kArm = 0x41;
constexpr std::uint64_t kCavium = 0x43;
constexpr std::uint64_t kFujitsu = 0x46;
constexpr std::uint64_t kHiSilicon = 0x48;
constexpr std::uint64_t kNvidia = 0x4e;
constexpr std::uint64_t kQualcomm = 0x51;
constexpr std::uint64_t kApple = 0x61;
constexpr std::uint64_t kMicrosoft = 0x6d;
constexpr std::uint64_t kAmpere = 0xc0;

constexpr ArmCore kCores[] = {
    {kArm, 0xd03, "Cortex-A53"},
    {kArm, 0xd04, "Cortex-A35"},
    {kArm, 0xd05, "Cortex-A55"},
    {kArm, 0xd07, "Cortex-A57"},
    {kArm, 0xd08, "Cortex-A72"},
    {kArm, 0xd09, "Cortex-A73"},
    {kArm, 0xd0a, "Cortex-A75"},
    {kArm, 0xd0b, "Cortex-A76"},
    {kArm, 0xd0c, "Neoverse-N1"},
    {kArm, 0xd0d, "Cortex-A77"},
    {kArm, 0xd0e, "Cortex-A76AE"},
    {kArm, 0xd40, "Neoverse-V1"},
    {kArm, 0xd41, "Cortex-A78"},
    {kArm, 0xd42, "Cortex-A78AE"},
    {kArm, 0xd44, "Cortex-X1"},
    {kArm, 0xd46, "Cortex-A510"},
    {kArm, 0xd47, "Cortex-A710"},
    {kArm, 0xd48, "Cortex-X2"},
    {kArm, 0xd49, "Neoverse-N2"},
    {kArm, 0xd4a, "Neoverse-E1"},
    {kArm, 0xd4b, "Cortex-A78C"},
    {kArm, 0xd4c, "Cortex-X1C"},
    {kArm, 0xd4d, "Cortex-A715"},
    {kArm, 0xd4e, "Cortex-X3"},
    {kArm, 0xd4f, "Neoverse-V2"},
    {kArm, 0xd80, "Cortex-A520"},
    {kArm, 0xd81, "Cortex-A720"},
    {kArm, 0xd82, "Cortex-X4"},
    {kArm, 0xd83, "Neoverse-V3AE"},
    {kArm, 0xd84, "Neoverse-V3"},
    {kArm, 0xd85, "Cortex-X925"},
    {kArm, 0xd87, "Cortex-A725"},
    {kArm, 0xd8e, "Neoverse-N3"},
    {kCavium, 0x0af, "ThunderX2"},
    {kFujitsu, 0x001, "A64FX"},
    {kHiSilicon, 0xd01, "TaiShan-v110"},
    {kNvidia, 0x004, "Carmel"},
    {kQualcomm, 0x001, "Oryon"},
    {kApple, 0x022, "Apple M1 (Icestorm)"},
    {kApple, 0x023, "Apple M1 (Firestorm)"},
    {kApple, 0x024, "Apple M1 Pro (Icestorm)"},
    {kApple, 0x025, "Apple M1 Pro (Firestorm)"},
    {kApple, 0x028, "Apple M1 Max (Icestorm)"},
    {kApple, 0x029, "Apple M1 Max (Firestorm)"},
    {kApple, 0x032, "Apple M2 (Blizzard)"},
    {kApple, 0x033, "Apple M2 (Avalanche)"},
    {kApple, 0x034, "Apple M2 Pro (Blizzard)"},
    {kApple, 0x035, "Apple M2 Pro (Avalanche)"},
    {kApple, 0x038, "Apple M2 Max (Blizzard)"},
    {kApple, 0x039, "Apple M2 Max (Avalanche)"},
    {kMicrosoft, 0xd49, "Azure Cobalt 100"},
    {kAmpere, 0xac3, "Ampere-1"},
    {kAmpere, 0xac4, "Ampere-1a"},
};

}  // namespace

std::string_view find_arm_core(std::uint64_t implementer, std::uint64_t part) {
  const auto* const found = std::ranges::find_if(
      kCores, [=](const ArmCore& core) { return core.implementer == implementer && core.part == part; });
  return found == std::end(kCores) ? std::string_view() : found->name;
}

}  // namespace kpt
