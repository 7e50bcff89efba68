#include "validation/last_position.h"

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

TEST(LastPosition, IsTakenAlongTheOneAxisWhereTheOtherHasOne) {
  const Tensor last = take_last_like(count_up({2, 3, 2}), {2, 1, 2}).value();
  EXPECT_EQ(last.dims(), (Dims{2, 1, 2}));
  EXPECT_EQ(elements(last), (std::vector<float>{4, 5, 10, 11}));
  EXPECT_EQ(elements(take_last_like(count_up({2, 3}), {2, 1, 7}).value()), (std::vector<float>{2, 5})) << "a mask";
}

TEST(LastPosition, EverythingElseStaysWhole) {
  const Tensor tensor = count_up({2, 3, 2});
  for (const Dims& other : {Dims{2, 3, 2}, Dims{1, 1, 2}, Dims{2, 2, 2}, Dims{2, 1}, Dims{}, Dims{2, 1, 3}}) {
    EXPECT_EQ(take_last_like(tensor, other).value().dims(), tensor.dims()) << other.to_string();
  }
  EXPECT_EQ(take_last_like(count_up({2, 0, 2}), {2, 1, 2}).value().dims(), (Dims{2, 0, 2})) << "there is none";
}

}  // namespace
}  // namespace kpt
