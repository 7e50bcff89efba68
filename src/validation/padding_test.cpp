#include "validation/padding.h"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

#include "ir/text.h"

namespace kpt {
namespace {

template <typename T>
Tensor tensor_of(DType dtype, const Dims& dims, const std::vector<T>& values) {
  const Tensor tensor = Tensor::empty(dtype, dims).value();
  std::copy(values.begin(), values.end(), tensor.elements<T>().begin());
  return tensor;
}

TEST(Padding, KeptIsWhatIsNotZeroInAnyType) {
  const std::vector<bool> expected = {true, false, true, false};
  EXPECT_EQ(kept_positions(tensor_of<std::int64_t>(DType::kInt64, {2, 2}, {1, 0, -256, 0})).value(), expected);
  EXPECT_EQ(kept_positions(tensor_of<std::uint8_t>(DType::kBool, {1, 4}, {1, 0, 1, 0})).value(), expected);
  EXPECT_EQ(kept_positions(tensor_of<float>(DType::kFloat32, {4, 1}, {1, -0.0F, 0.5F, 0})).value(), expected);
  EXPECT_TRUE(kept_positions(Tensor::empty(DType::kInt64, Dims{0, 7}).value()).value().empty());
  EXPECT_EQ(kept_positions(Tensor::empty(DType::kInt64, Dims{4}).value()).status().code(),
            StatusCode::kInvalidArgument);
}

TEST(Padding, RowsAreTakenInOrderAndBothPartsMakeTheWhole) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 100; ++round) {
    const auto batch = static_cast<std::int64_t>(random() % 4);
    const auto length = static_cast<std::int64_t>(random() % 6);
    const auto width = static_cast<std::int64_t>(random() % 4);
    const Dims dims = round % 2 == 0 ? Dims{batch, length, width} : Dims{batch, length};
    const Tensor tensor = Tensor::empty(DType::kInt32, dims).value();
    for (auto& element : tensor.elements<std::int32_t>()) element = static_cast<std::int32_t>(random());
    std::vector<bool> kept(static_cast<std::size_t>(batch * length));
    for (std::size_t index = 0; index < kept.size(); ++index) kept[index] = random() % 2 == 0;
    const Tensor in = take_positions(tensor, kept, true).value();
    const Tensor out = take_positions(tensor, kept, false).value();
    EXPECT_EQ(in.dims().size(), dims.size() - 1);
    EXPECT_EQ(in.dims()[0] + out.dims()[0], batch * length);
    std::size_t from_in = 0;
    std::size_t from_out = 0;
    const auto row = static_cast<std::size_t>(round % 2 == 0 ? width : 1);
    for (std::size_t index = 0; index < tensor.elements<std::int32_t>().size(); ++index) {
      const bool mine = kept[index / row];
      EXPECT_EQ(tensor.elements<std::int32_t>()[index],
                mine ? in.elements<std::int32_t>()[from_in++] : out.elements<std::int32_t>()[from_out++]);
    }
  }
}

TEST(Padding, AnotherNumberOfPositionsIsRefused) {
  const Tensor tensor = Tensor::empty(DType::kFloat32, Dims{2, 3, 4}).value();
  EXPECT_EQ(take_positions(tensor, std::vector<bool>(5), true).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(take_positions(Tensor::empty(DType::kFloat32, Dims{6}).value(), std::vector<bool>(6), true).status().code(),
            StatusCode::kInvalidArgument);
}

TEST(Padding, OnlyAMaskOfTheRightNameAndRankIsOne) {
  const auto found = [](const std::string& name, const std::string& dims) {
    const auto graph =
        ir::read_graph("kpt_graph 1\nvalues " + name + ", y\ninput " + name + ": int64" + dims + "\ny: bool" + dims +
                       " = aten.ne.Scalar(self=%" + name + ", other=0)\noutput %y \"out\"\n");
    EXPECT_TRUE(graph.ok()) << graph.status().message();
    return graph.ok() && find_attention_mask(*graph).has_value();
  };
  EXPECT_TRUE(found("attention_mask", "[2, 9]"));
  EXPECT_FALSE(found("global_attention_mask", "[2, 9]"));
  EXPECT_FALSE(found("attention_mask", "[2, 9, 9]"));
}

}  // namespace
}  // namespace kpt
