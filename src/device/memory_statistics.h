// What the memory of a device holds. Bytes; what nobody counts there is absent.
#pragma once

#include <cstdint>
#include <optional>

namespace kpt {

struct MemoryStatistics {
  // Of the device, whoever holds it.
  std::optional<std::uint64_t> total_bytes;
  std::optional<std::uint64_t> free_bytes;
  std::optional<std::uint64_t> limit_bytes;  // what this process may take of it; absent: all

  // Of this process.
  std::optional<std::uint64_t> allocated_bytes;  // in use
  std::optional<std::uint64_t> peak_bytes;       // the most that this was, since the start or reset_peak_memory()
  std::optional<std::uint64_t> reserved_bytes;   // taken from the device: in use, or kept for later
  std::optional<std::uint64_t> reserved_peak_bytes;
  // Kept, and neither large enough for every request nor to be given back: parts of blocks that are in use.
  std::optional<std::uint64_t> split_bytes;

  // Since the start.
  std::optional<std::uint64_t> allocations;          // blocks that were asked for
  std::optional<std::uint64_t> frees;                // blocks whose users let them go
  std::optional<std::uint64_t> out_of_memory_count;  // runs and requests that failed because there was too little
  std::optional<std::uint64_t> retries;              // runs and requests begun again after memory was given back
};

}  // namespace kpt
