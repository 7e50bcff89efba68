#include "kernels/cpu/image_copy.h"

#include <algorithm>

namespace kpt::kernels {
namespace {

// Both sides of a block stay in L1. Its inner loop is over columns, of which there are many even where there are three
// channels.
constexpr std::int64_t kChannelBlock = 16;
constexpr std::int64_t kColumnBlock = 64;

template <typename Element>
void copy_line(const ImageCopy& copy, std::int64_t image, std::int64_t row) {
  const auto& from = copy.source_strides;
  const auto& to = copy.target_strides;
  const Element* source = static_cast<const Element*>(copy.source) + image * from[0] + row * from[2];
  Element* target = static_cast<Element*>(copy.target) + image * to[0] + row * to[2];
  for (std::int64_t channel = 0; channel < copy.sizes[1]; channel += kChannelBlock) {
    const std::int64_t channel_end = std::min(channel + kChannelBlock, copy.sizes[1]);
    for (std::int64_t column = 0; column < copy.sizes[3]; column += kColumnBlock) {
      const std::int64_t column_end = std::min(column + kColumnBlock, copy.sizes[3]);
      for (std::int64_t c = channel; c < channel_end; ++c) {
        const Element* first = source + c * from[1] + column * from[3];
        Element* place = target + c * to[1] + column * to[3];
        for (std::int64_t x = column; x < column_end; ++x, first += from[3], place += to[3]) *place = *first;
      }
    }
  }
}

}  // namespace

std::array<std::int64_t, 4> channels_last_strides(const std::array<std::int64_t, 4>& sizes) {
  return {sizes[1] * sizes[2] * sizes[3], 1, sizes[1] * sizes[3], sizes[1]};
}

bool is_channels_last(const std::array<std::int64_t, 4>& sizes, const std::array<std::int64_t, 4>& strides) {
  const std::array<std::int64_t, 4> dense = channels_last_strides(sizes);
  for (std::size_t axis = 0; axis < 4; ++axis) {
    if (sizes[axis] > 1 && strides[axis] != dense[axis]) return false;
  }
  return true;
}

void copy_image(const ImageCopy& copy, const Parallel& parallel) {
  auto line = [&](std::int64_t index, int /*worker*/) {
    const std::int64_t image = index / copy.sizes[2];
    const std::int64_t row = index % copy.sizes[2];
    if (copy.element_bytes == 4) {
      copy_line<std::uint32_t>(copy, image, row);
    } else {
      copy_line<std::uint16_t>(copy, image, row);
    }
  };
  parallel.for_each(copy.sizes[0] * copy.sizes[2], line);
}

}  // namespace kpt::kernels
