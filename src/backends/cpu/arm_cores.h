// Names of Arm cores. /proc/cpuinfo gives only two numbers per core: who made it, and which of theirs it is.
#pragma once

#include <cstdint>
#include <string_view>

namespace kpt {

// "Neoverse-V1" for (0x41, 0xd40); empty when the core is not in the table.
std::string_view find_arm_core(std::uint64_t implementer, std::uint64_t part);

}  // namespace kpt
