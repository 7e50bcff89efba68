// The counts of a cache folder, in a small file that all processes add to.
#pragma once

#include <cstdint>
#include <filesystem>

namespace kpt::compile_cache {

struct Counters {
  std::uint64_t hits = 0;
  std::uint64_t misses = 0;
  std::uint64_t writes = 0;
  std::uint64_t evictions = 0;
  std::uint64_t corrupt = 0;
};

// Adds under the file's own lock. Counting is no reason to fail: a folder that cannot be written is not counted in. A
// file that does not fit its checksum starts anew.
void add_counts(const std::filesystem::path& file, const Counters& more);

// Back to zeros.
void reset_counts(const std::filesystem::path& file);

// Zeros when there is none.
Counters read_counts(const std::filesystem::path& file);

}  // namespace kpt::compile_cache
