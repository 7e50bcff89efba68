// The sizes that batches and sequences are padded to, where every new size costs a compile or a capture.
#pragma once

#include <cstdint>

namespace kpt {

// Larger ones run as they are: what padding saves is little beside them.
inline constexpr std::int64_t kLargestBucket = 1024;

// The least of 1, 2, 3, 4, 6, 8, 12, 16, 24, … that holds `size`, so that less than a third of a batch is padding;
// `most` where that is less. `size` itself where it is 0, above `most` or above kLargestBucket.
std::int64_t find_bucket(std::int64_t size, std::int64_t most);

}  // namespace kpt
