#include "kernels/cpu/image_copy.h"

#include <numeric>
#include <vector>

#include <gtest/gtest.h>

namespace kpt::kernels {
namespace {

template <typename Element>
void check_round_trip(std::array<std::int64_t, 4> sizes) {
  const auto count = static_cast<std::size_t>(sizes[0] * sizes[1] * sizes[2] * sizes[3]);
  std::vector<Element> planes(count);
  std::iota(planes.begin(), planes.end(), Element{1});
  std::vector<Element> pixels(count + 3, 0);
  std::vector<Element> back(count, 0);
  const std::array<std::int64_t, 4> dense = {sizes[1] * sizes[2] * sizes[3], sizes[2] * sizes[3], sizes[3], 1};
  const std::array<std::int64_t, 4> last = channels_last_strides(sizes);
  EXPECT_TRUE(is_channels_last(sizes, last));
  copy_image({sizes, planes.data(), dense, pixels.data(), last, sizeof(Element)}, {});
  for (std::int64_t c = 0; c < sizes[1]; ++c) {
    for (std::int64_t x = 0; x < sizes[3]; ++x) {
      EXPECT_EQ(pixels[static_cast<std::size_t>(x * last[3] + c)], planes[static_cast<std::size_t>(c * dense[1] + x)]);
    }
  }
  copy_image({sizes, pixels.data(), last, back.data(), dense, sizeof(Element)}, {});
  EXPECT_EQ(back, planes);
  for (std::size_t i = count; i < pixels.size(); ++i) EXPECT_EQ(pixels[i], Element{0});
}

TEST(ImageCopy, GoesToChannelsLastAndBack) {
  check_round_trip<std::uint32_t>({2, 19, 3, 37});
  check_round_trip<std::uint16_t>({1, 3, 17, 16});
  check_round_trip<std::uint32_t>({1, 17, 2, 130});  // blocks of columns and a rest
  check_round_trip<std::uint32_t>({1, 1, 1, 1});
}

TEST(ImageCopy, AxesOfOneElementDoNotDecideTheFormat) {
  EXPECT_TRUE(is_channels_last({1, 8, 2, 3}, {777, 1, 24, 8}));
  EXPECT_FALSE(is_channels_last({2, 8, 2, 3}, {777, 1, 24, 8}));
  EXPECT_FALSE(is_channels_last({2, 8, 2, 3}, {48, 6, 3, 1}));
}

}  // namespace
}  // namespace kpt::kernels
