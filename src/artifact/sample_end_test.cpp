#include "artifact/sample_end.h"

#include <numeric>
#include <vector>

#include <gtest/gtest.h>

namespace kpt {
namespace {

// 0, 1, 2, … in the order of the extents.
Tensor count_up(const Dims& dims) {
  Tensor tensor = Tensor::empty(DType::kFloat32, dims).value();
  std::iota(tensor.elements<float>().begin(), tensor.elements<float>().end(), 0.0F);
  return tensor;
}

std::vector<float> elements(const Tensor& tensor) {
  const auto span = tensor.elements<float>();
  return {span.begin(), span.end()};
}

TEST(SampleEnd, TheLongestAxisButTheLastIsShortenedFirst) {
  EXPECT_EQ(shorten({2, 100, 50}, 4, 1 << 20), (Dims{2, 100, 50})) << "it fits";
  EXPECT_EQ(shorten({2, 100, 500}, 4, 40000), (Dims{2, 10, 500}));
  EXPECT_EQ(shorten({2, 100, 500}, 4, 4000), (Dims{2, 1, 500}));
  EXPECT_EQ(shorten({2, 100, 500}, 4, 3999), (Dims{1, 1, 500}));
  EXPECT_EQ(shorten({2, 100, 500}, 4, 400), (Dims{1, 1, 100})) << "the last axis when all others are at their end";
  EXPECT_EQ(shorten({1, 3, 64, 64}, 4, 12 * 64), (Dims{1, 3, 1, 64}));
  EXPECT_EQ(shorten({8}, 4, 3), (Dims{1})) << "less than one element is no sample";
  EXPECT_EQ(shorten({}, 8, 1), Dims{});
  EXPECT_EQ(shorten({0, 1000, 1000}, 8, 1), (Dims{0, 1000, 1000})) << "nothing is not large";
}

TEST(SampleEnd, IsTakenAlongEveryAxis) {
  EXPECT_EQ(elements(take_end(count_up({2, 3, 2}), {2, 1, 2}).value()), (std::vector<float>{4, 5, 10, 11}));
  EXPECT_EQ(elements(take_end(count_up({2, 3, 2}), {1, 2, 1}).value()), (std::vector<float>{9, 11}));
  EXPECT_EQ(take_end(count_up({2, 3}), {0, 3}).value().dims(), (Dims{0, 3}));
  for (const Dims& other : {Dims{2, 3}, Dims{3, 3}, Dims{6}, Dims{2, 3, 1}, Dims{}}) {
    EXPECT_EQ(take_end(count_up({2, 3}), other).value().dims(), (Dims{2, 3})) << other.to_string();
  }
}

}  // namespace
}  // namespace kpt
