// What the memory of a GPU holds: libtorch's allocator, the driver, and what went wrong in this process.
#pragma once

#include <cstdint>
#include <exception>
#include <string_view>

#include <c10/core/Device.h>

#include "device/memory_statistics.h"
#include "kpt/status.h"
#include "memory/available_memory.h"

namespace kpt::aten {

// Throws what libtorch throws. The device must be initialised.
MemoryStatistics read_memory(c10::DeviceIndex device);

// What libtorch's allocator keeps for later. Asks no driver.
std::uint64_t count_kept(c10::DeviceIndex device);

// Keeps in mind what this process may take of the device, in per cent; read_memory() tells it.
void remember_limit(c10::DeviceIndex device, int percent);

// Gives what libtorch's allocator keeps for later back to the driver.
void empty_device_cache();
void reset_device_peak(c10::DeviceIndex device);

// Whether memory is what was missing. The vendors' libraries take some past libtorch's allocator and say little when
// there is none: then the driver's free bytes tell.
bool ran_out_of_memory(const std::exception& error, c10::DeviceIndex device);

// A failure for want of the GPU's memory is counted and says how much was asked for, as far as libtorch's text in it
// tells, how much there is, and what to do; others stay as they are, also those of no vendor: the host's memory ran
// out.
Status describe_shortage(Status status, c10::DeviceIndex device, std::string_view advice = kAdviceForRuns);

// A run or a request that failed because there was too little memory, and one begun again after some was given back.
// Thread safe.
void count_out_of_memory(c10::DeviceIndex device);
void count_retry(c10::DeviceIndex device);
std::uint64_t times_out_of_memory(c10::DeviceIndex device);

// What models keep on the device for their next runs (kept_memory.h) is given up, by all that are not at work. Whether
// any did.
bool give_up_kept_memory(c10::DeviceIndex device);

// What `attempt` gives, a Result of something that takes memory of the device. Where that was short, what idle models
// keep is given up and it is called once more. Throws what it throws.
template <typename Attempt>
auto attempt_with_kept_memory(c10::DeviceIndex device, const Attempt& attempt) {
  try {
    auto made = attempt();
    if (made.status().code() != StatusCode::kOutOfMemory || !give_up_kept_memory(device)) return made;
  } catch (const std::exception& error) {
    if (!ran_out_of_memory(error, device) || !give_up_kept_memory(device)) throw;
  }
  count_retry(device);
  return attempt();
}

}  // namespace kpt::aten
