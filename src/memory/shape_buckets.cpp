#include "memory/shape_buckets.h"

#include <algorithm>

namespace kpt {

std::int64_t find_bucket(std::int64_t size, std::int64_t most) {
  if (size < 1 || size > most || size > kLargestBucket) return size;
  std::int64_t power = 1;
  while (power < size) power *= 2;
  const std::int64_t between = power / 4 * 3;
  return std::min(between >= size ? between : power, most);
}

}  // namespace kpt
