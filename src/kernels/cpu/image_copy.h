// Copies of images from one memory format to another.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/parallel.h"

namespace kpt::kernels {

// Logical axes are [batch, channels, height, width]; strides are in elements.
struct ImageCopy {
  std::array<std::int64_t, 4> sizes = {};
  const void* source = nullptr;
  std::array<std::int64_t, 4> source_strides = {};
  void* target = nullptr;
  std::array<std::int64_t, 4> target_strides = {};
  std::size_t element_bytes = 4;  // 2 or 4
};

// Whether `strides` are those of dense channels-last memory; axes of one element do not count.
bool is_channels_last(const std::array<std::int64_t, 4>& sizes, const std::array<std::int64_t, 4>& strides);
std::array<std::int64_t, 4> channels_last_strides(const std::array<std::int64_t, 4>& sizes);

// Source and target do not overlap. Allocates nothing.
void copy_image(const ImageCopy& copy, const Parallel& parallel);

}  // namespace kpt::kernels
