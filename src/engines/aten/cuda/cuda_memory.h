// What the memory of a CUDA device holds: libtorch's allocator, the driver, and what went wrong in this process.
#pragma once

#include <cstdint>

#include <c10/core/Device.h>

#include "device/memory_statistics.h"

namespace kpt::aten {

// Throws what libtorch throws. The device must be initialised.
MemoryStatistics read_memory(c10::DeviceIndex device);

// What libtorch's allocator keeps for later. Asks no driver.
std::uint64_t count_kept(c10::DeviceIndex device);

// What libtorch's allocator may take of the device, in per cent. It fails where more would be needed.
void limit_memory(c10::DeviceIndex device, int percent);

// A run or a request that failed because there was too little memory, and one begun again after some was given back.
// Thread safe.
void count_out_of_memory(c10::DeviceIndex device);
void count_retry(c10::DeviceIndex device);

}  // namespace kpt::aten
