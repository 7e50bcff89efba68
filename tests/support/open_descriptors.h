// How many files this process has open.
#pragma once

#include <cstddef>
#include <filesystem>
#include <iterator>

namespace kpt {

inline std::size_t open_descriptors() {
  using Entries = std::filesystem::directory_iterator;
  return static_cast<std::size_t>(std::distance(Entries("/proc/self/fd"), Entries()));
}

}  // namespace kpt
