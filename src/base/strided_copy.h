// Copies elements that lie at strides into contiguous memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace kpt {

// `source` is the address of the first element; strides count elements. Every element must be readable, and `target`
// must have room for all of them. Neither needs to be aligned. At most kMaxRank extents.
void copy_strided(std::byte* target, const std::byte* source, std::span<const std::int64_t> dims,
                  std::span<const std::int64_t> strides, std::size_t element_bytes);

}  // namespace kpt
