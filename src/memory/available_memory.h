// Whether something fits into a device's memory, from what the device says of it. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "device/memory_statistics.h"
#include "kpt/status.h"

namespace kpt {

// Whether a failure says that there was too little memory, of whatever kind: a smaller request may succeed.
bool is_shortage(StatusCode code);

// What this process could still get: what is free whoever holds the rest, and what its own allocator keeps for later,
// within what the process may take. Nothing where the device does not tell what is free.
std::optional<std::uint64_t> count_available(const MemoryStatistics& memory);

// The share of what the process took from the device that neither serves nor can be given back, 0 to 1. Nothing where
// it is not counted.
std::optional<double> count_fragmentation(const MemoryStatistics& memory);

// Ok when `needed` and a margin fit. Fails with kOutOfMemory of `vendor`, with needed_bytes, available_bytes,
// free_bytes, margin_bytes and advice as context. What cannot be known is not refused.
Status check_available(const MemoryStatistics& memory, std::uint64_t needed, std::uint64_t margin, Vendor vendor,
                       std::string_view what);

// What mends a shortage.
inline constexpr std::string_view kAdviceForRuns = "run a smaller batch, or free memory that other processes hold";
inline constexpr std::string_view kAdviceForRequests =
    "free memory that other models or processes hold, or take a device that has more";

// A shortage that showed when memory was asked for, with what is known of it as context: needed_bytes (of the request
// that failed), available_bytes, free_bytes and total_bytes, each only where it is known, and advice.
Status with_memory_facts(Status shortage, std::optional<std::uint64_t> needed, const MemoryStatistics& memory,
                         std::string_view advice);

}  // namespace kpt
