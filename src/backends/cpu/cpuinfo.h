// Reads /proc/cpuinfo, x86 and Arm.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kpt {

struct CpuInfo {
  std::string architecture;        // "x86_64", "aarch64", …; empty when the text does not tell
  std::string model;               // "AMD EPYC 9654 96-Core Processor", "Neoverse-V1", "Cortex-A76 + Cortex-A55"
  int processors = 0;              // entries in the text
  std::vector<std::string> flags;  // those that every processor has: a thread may run on any of them
  std::vector<std::string> notes;  // what is odd about the text
};

// Never fails: what is missing stays empty and is noted.
CpuInfo parse_cpuinfo(std::string_view text);

}  // namespace kpt
