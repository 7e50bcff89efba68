// What a device does at this moment and what its memory holds, for programs that watch it.
//
// Devices are named as list_devices() names them. What a device does not tell, or nobody counts there, is absent: no
// figure is made up. Thread safe. The user's configuration file and KPT_ variables apply, and fail with kConfiguration
// when they are wrong.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "kpt/export.h"
#include "kpt/status.h"

namespace kpt {

// At the moment of asking, whoever uses the device.
struct DeviceLoad {
  std::optional<int> utilization_percent;  // of the last sample period: some kernel was at work
  std::optional<int> temperature_celsius;
  std::optional<int> power_milliwatts;
  std::optional<int> power_limit_milliwatts;
  std::optional<int> clock_mhz;  // of the multiprocessors
  std::optional<int> clock_max_mhz;
  std::optional<int> memory_clock_mhz;
  std::optional<int> memory_clock_max_mhz;
  std::optional<std::uint64_t> memory_free_bytes;  // what all processes leave
};

// NVIDIA's GPUs tell through NVML, also those that models cannot run on; of all other devices everything is absent.
// NVML is asked in a child process with a time limit (option probe.timeout_ms), so this is for a look now and then and
// not for every run. Fails as find_device() does.
KPT_API Result<DeviceLoad> read_device_load(std::string_view name);

struct DeviceMemoryFigures {
  // Of the device, whoever holds it.
  std::optional<std::uint64_t> total_bytes;
  std::optional<std::uint64_t> free_bytes;
  std::optional<std::uint64_t> limit_bytes;  // what this process may take of it; absent: all

  // Of this process, all its models together; for cpu all that it has in memory, mapped files too.
  std::optional<std::uint64_t> allocated_bytes;  // in use
  std::optional<std::uint64_t> peak_bytes;       // the most that this was, since the start or the last reset
  std::optional<std::uint64_t> reserved_bytes;   // taken from the device: in use, or kept for later
  std::optional<std::uint64_t> reserved_peak_bytes;
  // The share of `reserved_bytes` that neither serves nor can be given back, 0 to 1.
  std::optional<double> fragmentation;

  // Of this process, since the start.
  std::optional<std::uint64_t> allocations;          // blocks that were asked for
  std::optional<std::uint64_t> frees;                // blocks whose users let them go
  std::optional<std::uint64_t> out_of_memory_count;  // loads, runs and requests that failed for want of memory
  std::optional<std::uint64_t> retries;              // runs and requests begun again after memory was given back
};

// The first call opens the device in this process, as loading a model there does, and it stays open until the process
// ends. Fails as load_model() does where the device cannot be used, and with kUnsupported where nobody counts.
KPT_API Result<DeviceMemoryFigures> read_device_memory(std::string_view name);

// Lets the peaks start anew from what is in use now. Fails as read_device_memory(), with kUnsupported where there are
// none (xla, tpu), and for cpu with kPermissionDenied where the kernel does not allow it.
KPT_API Status reset_device_memory_peak(std::string_view name);

// Gives back to the device what is kept for later: of PyTorch's allocator on all GPUs of the process. Models and their
// captured runs keep what is theirs. Fails as read_device_memory(), and with kUnsupported where nothing is kept (cpu,
// xla, tpu).
KPT_API Status empty_device_memory_cache(std::string_view name);

}  // namespace kpt
