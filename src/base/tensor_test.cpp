#include "kpt/tensor.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <random>
#include <stdexcept>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kpt {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();
constexpr DType kWidths[] = {DType::kInt8, DType::kBFloat16, DType::kFloat32, DType::kInt64, DType::kComplex128};

std::int64_t draw(std::mt19937& random, std::int64_t low, std::int64_t high) {
  return std::uniform_int_distribution<std::int64_t>(low, high)(random);
}

// Memory of the CPU, or of a device whose memory has no address.
class PlainBuffer final : public Buffer {
 public:
  explicit PlainBuffer(std::size_t bytes, std::string device = "cpu") : content_(bytes), device_(std::move(device)) {}
  void* data() const override { return device_ == "tpu:0" ? nullptr : content_.data(); }
  std::size_t bytes() const override { return content_.size(); }
  std::string_view device() const override { return device_; }

 private:
  mutable std::vector<std::byte> content_;
  std::string device_;
};

// The address of each element, by the definition of strides.
void list_offsets(const Tensor& tensor, std::size_t axis, std::int64_t offset, std::vector<std::int64_t>& offsets) {
  if (axis == tensor.dims().size()) {
    offsets.push_back(offset);
    return;
  }
  for (std::int64_t i = 0; i < tensor.dims()[axis]; ++i) {
    list_offsets(tensor, axis + 1, offset + i * tensor.strides()[axis], offsets);
  }
}

TEST(DimsList, HoldsSixteenAndRefusesMore) {
  std::vector<std::int64_t> values(kMaxRank, 3);
  EXPECT_EQ(Dims(values).size(), 16U);
  values.push_back(3);
  EXPECT_THROW((void)Dims(values), std::length_error);
  Dims grown;
  for (std::size_t i = 0; i < kMaxRank; ++i) grown.push_back(3);
  EXPECT_THROW(grown.push_back(3), std::length_error);
  EXPECT_EQ(grown, Dims(std::vector<std::int64_t>(kMaxRank, 3)));
}

TEST(DimsList, ComparesOnlyWhatItHolds) {
  EXPECT_NE(Dims({1, 2}), Dims({1, 2, 0}));
  EXPECT_EQ(Dims(), Dims(std::span<const std::int64_t>{}));
  EXPECT_EQ((Dims{2, 128, 768}.to_string()), "[2, 128, 768]");
  EXPECT_EQ(Dims().to_string(), "[]");
}

TEST(CountElements, RefusesNegativeExtentsAndOverflow) {
  EXPECT_EQ(count_elements({}), 1);
  EXPECT_EQ(count_elements(Dims{2, 3, 4}), 24);
  EXPECT_EQ(count_elements(Dims{kHuge, 1}), kHuge);
  EXPECT_EQ(count_elements(Dims{kHuge, 2}), std::nullopt);
  EXPECT_EQ(count_elements(Dims{std::int64_t{1} << 32, std::int64_t{1} << 32}), std::nullopt);
  EXPECT_EQ(count_elements(Dims{2, -1}), std::nullopt);
  EXPECT_EQ(count_elements(Dims{0, -1}), std::nullopt);
  EXPECT_EQ(count_elements(Dims{kHuge, kHuge, 0}), 0);
}

TEST(ContiguousStrides, AreRowMajor) {
  EXPECT_TRUE(contiguous_strides({}).empty());
  EXPECT_EQ(contiguous_strides(Dims{2, 3, 4}), (Dims{12, 4, 1}));
  EXPECT_EQ(contiguous_strides(Dims{2, 0, 4}), (Dims{4, 4, 1}));
}

TEST(EmptyTensor, IsAlignedAndContiguousForAllExtents) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 300; ++round) {
    Dims dims;
    for (std::int64_t rank = draw(random, 0, 6); rank > 0; --rank) dims.push_back(draw(random, 0, 4));
    const DType dtype = kWidths[draw(random, 0, 4)];
    const auto tensor = Tensor::empty(dtype, dims);
    ASSERT_TRUE(tensor.ok());
    ASSERT_TRUE(tensor->defined());
    ASSERT_NE(tensor->data(), nullptr);
    ASSERT_EQ(reinterpret_cast<std::uintptr_t>(tensor->data()) % 64, 0U);
    ASSERT_TRUE(tensor->is_contiguous());
    ASSERT_EQ(tensor->dims(), dims);
    ASSERT_EQ(tensor->element_count(), count_elements(dims));
    ASSERT_EQ(tensor->bytes(), tensor->buffer()->bytes());
    std::memset(tensor->data(), 1, tensor->bytes());
  }
}

TEST(EmptyTensor, RefusesWhatCannotBe) {
  const std::vector<std::int64_t> rank_17(17, 1);
  const auto deep = Tensor::empty(DType::kBool, rank_17);
  EXPECT_EQ(deep.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(deep.status().message(), HasSubstr("rank 17"));
  EXPECT_EQ(Tensor::empty(DType::kBool, Dims{-1}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Tensor::empty(DType::kBool, Dims{kHuge, kHuge}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Tensor::empty(DType::kInt16, Dims{kHuge}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Tensor::empty(DType::kInt8, Dims{kHuge}).status().code(), StatusCode::kOutOfMemory);
}

TEST(UndefinedTensor, HasNoElements) {
  const Tensor tensor;
  EXPECT_FALSE(tensor.defined());
  EXPECT_EQ(tensor.element_count(), 0);
  EXPECT_EQ(tensor.bytes(), 0U);
  EXPECT_EQ(tensor.data(), nullptr);
  EXPECT_EQ(tensor.device(), "");
  EXPECT_EQ(tensor.to_string(), "undefined");
  EXPECT_EQ(tensor.contiguous_copy().status().code(), StatusCode::kInvalidArgument);
}

TEST(TensorFromBytes, CopiesExactlyItsBytes) {
  std::vector<float> values = {1, 2, 3, 4, 5, 6};
  const auto tensor = Tensor::from_bytes(DType::kFloat32, Dims{2, 3}, std::as_bytes(std::span(values)));
  ASSERT_TRUE(tensor.ok());
  values[0] = 9;
  EXPECT_THAT(tensor->elements<float>(), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_EQ(tensor->to_string(), "float32[2, 3] on cpu");
  const auto bytes = std::as_bytes(std::span(values));
  EXPECT_FALSE(Tensor::from_bytes(DType::kFloat32, Dims{2, 2}, bytes).ok());
  EXPECT_FALSE(Tensor::from_bytes(DType::kFloat32, Dims{2, 4}, bytes).ok());
  EXPECT_FALSE(Tensor::from_bytes(DType::kFloat32, Dims{2, 3}, bytes.subspan(1)).ok());
  EXPECT_TRUE(Tensor::from_bytes(DType::kFloat32, Dims{0}, {}).ok());
}

TEST(TensorFromMemory, ReleasesOnceAfterTheLastShareAndNeverOnFailure) {
  int released = 0;
  float values[4] = {1, 2, 3, 4};
  const auto release = [&] { ++released; };
  {
    auto tensor = Tensor::from_memory(DType::kFloat32, Dims{4}, values, sizeof values, release);
    ASSERT_TRUE(tensor.ok());
    const Tensor share = *tensor;
    tensor = Tensor();
    EXPECT_EQ(released, 0);
    EXPECT_EQ(share.data(), values);
    EXPECT_TRUE(share.buffer()->owns_memory());
  }
  EXPECT_EQ(released, 1);
  EXPECT_FALSE(Tensor::from_memory(DType::kFloat32, Dims{5}, values, sizeof values, release).ok());
  EXPECT_FALSE(Tensor::from_memory(DType::kFloat32, Dims{4}, nullptr, sizeof values, release).ok());
  EXPECT_FALSE(Tensor::from_memory(DType::kFloat32, Dims{2, 2}, values, sizeof values, release, Dims{1}).ok());
  EXPECT_EQ(released, 1);
  const auto transposed = Tensor::from_memory(DType::kFloat32, Dims{2, 2}, values, sizeof values, {}, Dims{1, 2});
  ASSERT_TRUE(transposed.ok());
  EXPECT_FALSE(transposed->is_contiguous());
  EXPECT_FALSE(transposed->buffer()->owns_memory()) << "nobody hears when the last share goes";
  const auto copy = transposed->contiguous_copy();
  EXPECT_TRUE(copy->buffer()->owns_memory());
  EXPECT_THAT(copy->elements<float>(), ElementsAre(1, 3, 2, 4));
}

TEST(TensorFromBuffer, AcceptsExactlyWhatLiesInside) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  int accepted = 0;
  for (int round = 0; round < 2000; ++round) {
    Dims dims;
    Dims strides;
    for (std::int64_t rank = draw(random, 0, 4); rank > 0; --rank) {
      dims.push_back(draw(random, 0, 4));
      strides.push_back(draw(random, 0, 8));
    }
    const DType dtype = kWidths[draw(random, 0, 4)];
    const std::int64_t offset = draw(random, 0, 6);
    const auto buffer = std::make_shared<PlainBuffer>(static_cast<std::size_t>(draw(random, 0, 200)));
    std::vector<std::int64_t> offsets;
    list_offsets(Tensor::unchecked(buffer, dtype, dims, strides, offset), 0, offset, offsets);
    const auto width = static_cast<std::int64_t>(element_bytes(dtype));
    const auto bytes = static_cast<std::int64_t>(buffer->bytes());
    const std::int64_t end = offsets.empty() ? 0 : *std::max_element(offsets.begin(), offsets.end()) + 1;
    const bool inside = end * width <= bytes;
    const auto tensor = Tensor::from_buffer(buffer, dtype, dims, strides, offset);
    ASSERT_EQ(tensor.ok(), inside) << dims.to_string() << strides.to_string() << " offset " << offset << " in "
                                   << bytes;
    accepted += inside ? 1 : 0;
  }
  EXPECT_GT(accepted, 100);
}

TEST(TensorFromBuffer, RefusesOverflowNegativeStridesAndBadRanks) {
  const auto buffer = std::make_shared<PlainBuffer>(1024);
  const auto code = [&](const Dims& dims, const Dims& strides, std::int64_t offset) {
    return Tensor::from_buffer(buffer, DType::kFloat32, dims, strides, offset).status().code();
  };
  EXPECT_EQ(code({2}, {1}, 0), StatusCode::kOk);
  EXPECT_EQ(code({2}, {kHuge}, 0), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({3}, {kHuge / 2 + 1}, 0), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({3, 3}, {kHuge / 2, kHuge / 2}, 0), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({2}, {std::int64_t{1} << 62}, 0), StatusCode::kInvalidArgument);  // times four is zero
  EXPECT_EQ(code({2}, {-1}, 1), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({2}, {1}, -1), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({1}, {1}, kHuge), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({0}, {1}, kHuge), StatusCode::kOk);  // no element lies anywhere
  EXPECT_EQ(Tensor::from_buffer(buffer, DType::kFloat32, Dims{0}, Dims{1}, kHuge)->offset(), 0);
  EXPECT_EQ(code({2}, {1, 1}, 0), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({1}, {kHuge}, 0), StatusCode::kOk);
  EXPECT_EQ(code({0, 5}, {kHuge, kHuge}, 256), StatusCode::kOk);
  const std::vector<std::int64_t> rank_17(17, 1);
  EXPECT_FALSE(Tensor::from_buffer(buffer, DType::kFloat32, rank_17, rank_17, 0).ok());
  EXPECT_FALSE(Tensor::from_buffer(nullptr, DType::kFloat32, Dims{1}, Dims{1}, 0).ok());
}

TEST(ContiguousCopy, EqualsTheNaiveWalkForRandomStrides) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 1500; ++round) {
    Dims dims;
    for (std::int64_t rank = draw(random, 0, 5); rank > 0; --rank) dims.push_back(draw(random, 0, 5));
    Dims strides = contiguous_strides(dims);
    // Transpose, broadcast and gaps: start from contiguous strides so that merging is exercised too.
    for (std::size_t i = 0; i < strides.size(); ++i) {
      const std::int64_t kind = draw(random, 0, 5);
      if (kind == 0) strides[i] = 0;
      if (kind == 1) strides[i] = draw(random, 0, 9);
      if (kind == 2) std::swap(strides[i], strides[static_cast<std::size_t>(draw(random, 0, 4)) % strides.size()]);
    }
    const DType dtype = kWidths[draw(random, 0, 4)];
    const auto width = element_bytes(dtype);
    const std::int64_t offset = draw(random, 0, 3);
    std::int64_t end = offset + 1;
    for (std::size_t i = 0; i < dims.size(); ++i) end += dims[i] * strides[i];
    const auto buffer = std::make_shared<PlainBuffer>(static_cast<std::size_t>(end) * width);
    auto* content = static_cast<std::byte*>(buffer->data());
    std::generate_n(content, buffer->bytes(), [&] { return static_cast<std::byte>(random() & 255U); });
    const auto tensor = Tensor::from_buffer(buffer, dtype, dims, strides, offset);
    ASSERT_TRUE(tensor.ok()) << tensor.status().message();
    std::vector<std::int64_t> offsets;
    list_offsets(*tensor, 0, offset, offsets);
    const auto copy = tensor->contiguous_copy();
    ASSERT_TRUE(copy.ok());
    ASSERT_TRUE(copy->is_contiguous());
    ASSERT_EQ(copy->bytes(), offsets.size() * width);
    for (std::size_t i = 0; i < offsets.size(); ++i) {
      ASSERT_EQ(std::memcmp(static_cast<std::byte*>(copy->data()) + i * width,
                            content + static_cast<std::size_t>(offsets[i]) * width, width),
                0)
          << dims.to_string() << strides.to_string() << " element " << i;
    }
    // By its definition: contiguous is when the elements lie one after the other.
    bool dense = true;
    for (std::size_t i = 0; i < offsets.size(); ++i) dense &= offsets[i] == offset + static_cast<std::int64_t>(i);
    ASSERT_EQ(tensor->is_contiguous(), dense) << dims.to_string() << strides.to_string();
  }
}

TEST(ContiguousCopy, NeedsAnAddressOfTheCpu) {
  for (const char* device : {"tpu:0", "nvidia:0"}) {
    const auto buffer = std::make_shared<PlainBuffer>(16, device);
    const auto tensor = Tensor::from_buffer(buffer, DType::kFloat32, Dims{4}, Dims{1}, 0);
    ASSERT_TRUE(tensor.ok());
    EXPECT_EQ(tensor->device(), device);
    const auto copy = tensor->contiguous_copy();
    EXPECT_EQ(copy.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(copy.status().message(), HasSubstr(device));
  }
}

TEST(TensorData, IsTheFirstElement) {
  const auto buffer = std::make_shared<PlainBuffer>(64);
  const auto tensor = Tensor::from_buffer(buffer, DType::kInt64, Dims{2}, Dims{3}, 4);
  ASSERT_TRUE(tensor.ok());
  EXPECT_EQ(tensor->data(), static_cast<std::byte*>(buffer->data()) + 32);
  EXPECT_EQ(tensor->offset(), 4);
}

}  // namespace
}  // namespace kpt
