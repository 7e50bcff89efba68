// How much memory a process has and how busy the machine is, as the kernel counts it.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "kpt/status.h"

namespace kpt {

struct ProcessMemory {
  std::uint64_t anonymous_bytes = 0;  // RssAnon: what the process itself allocated and touched
  std::uint64_t resident_bytes = 0;   // VmRSS: with the mapped files (weights, libraries) that are in memory
  std::uint64_t peak_bytes = 0;       // VmHWM: the most that VmRSS was, since the start or since reset_peak()
};

// Of /proc/<pid>/status. Nothing when one of the three is missing or no number of kB.
std::optional<ProcessMemory> parse_process_status(std::string_view text);

// Of this process. Fails with kUnsupported where the system does not say.
Result<ProcessMemory> read_process_memory(const SystemFiles& files);

// Processes that wanted to run, on average over the last 1, 5 and 15 minutes; empty where the system does not say.
std::vector<double> read_load_average(const SystemFiles& files);

// Lets the peak start anew from what is resident now. Fails with kPermissionDenied or kUnsupported where the kernel
// does not allow it; then the peak is that of the whole process.
Status reset_peak(const SystemFiles& files);

}  // namespace kpt
