#include "engines/native/view.h"

#include <random>

#include <gtest/gtest.h>

namespace kpt::native {
namespace {

// Where the element at a flat index of the view lies.
std::int64_t place_of(const View& view, std::int64_t item) {
  std::int64_t place = view.offset;
  for (std::size_t axis = view.dims.size(); axis-- > 0;) {
    place += item % view.dims[axis] * view.strides[axis];
    item /= view.dims[axis];
  }
  return place;
}

TEST(NativeView, ReshapeNeverMovesAnElement) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const auto draw = [&random](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  int possible = 0;
  for (int round = 0; round < 2000; ++round) {
    View view = contiguous_view(0, DType::kFloat32, {draw(1, 4), draw(1, 4), draw(1, 4), draw(1, 4)});
    if (draw(0, 1) == 0)
      view = transposed(view, static_cast<std::size_t>(draw(0, 3)), static_cast<std::size_t>(draw(0, 3)));
    if (draw(0, 2) == 0) view = sliced(view, 1, 0, (view.dims[1] + 1) / 2, draw(1, 2));
    std::int64_t rest = count_elements(view);
    Dims dims;
    while (rest > 1 && dims.size() < 4) {
      std::int64_t factor = draw(1, 4);
      while (rest % factor != 0) --factor;
      dims.push_back(factor);
      rest /= factor;
    }
    dims.push_back(rest);
    const auto result = reshaped(view, dims);
    ASSERT_TRUE(result.has_value() || !is_contiguous(view));
    if (!result) continue;
    ++possible;
    for (std::int64_t i = 0; i < count_elements(view); ++i) ASSERT_EQ(place_of(*result, i), place_of(view, i)) << i;
  }
  EXPECT_GT(possible, 500);
}

TEST(NativeView, ReshapeSaysWhenACopyIsNeeded) {
  const View view = transposed(contiguous_view(0, DType::kFloat32, {2, 3, 4}), 1, 2);
  EXPECT_FALSE(reshaped(view, {24}).has_value());
  EXPECT_FALSE(reshaped(view, {5}).has_value());
  EXPECT_TRUE(reshaped(view, {2, 1, 4, 3}).has_value());
}

TEST(NativeView, ExpandRepeatsAxesOfOneElement) {
  const View view = contiguous_view(0, DType::kFloat32, {3, 1});
  const auto wide = expanded(view, {2, 3, 5});
  ASSERT_TRUE(wide.has_value());
  EXPECT_EQ(wide->strides, Dims({0, 1, 0}));
  EXPECT_FALSE(expanded(view, {4, 5}).has_value());
  EXPECT_FALSE(expanded(view, {3}).has_value());
}

TEST(NativeView, RowsNeedOneStride) {
  const View view = contiguous_view(0, DType::kFloat32, {2, 3, 4});
  EXPECT_EQ(as_rows(view)->rows, 6);
  EXPECT_EQ(as_rows(view, 2)->width, 12);
  EXPECT_EQ(as_rows(sliced(view, 2, 0, 2, 1))->stride, 4);
  EXPECT_FALSE(as_rows(sliced(view, 1, 0, 2, 1)).has_value());
  EXPECT_FALSE(as_rows(transposed(view, 1, 2)).has_value());
  EXPECT_EQ(as_rows(without_axis(sliced(view, 1, 1, 1, 1), 1))->stride, 12);
}

}  // namespace
}  // namespace kpt::native
