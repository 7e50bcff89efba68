#include "base/dlpack.h"

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kpt {
namespace {

using ::testing::HasSubstr;

// A tensor as another library would give it, counting how often it is let go.
struct Foreign {
  std::vector<float> values = std::vector<float>(24);
  std::vector<std::int64_t> shape = {2, 3, 4};
  std::vector<std::int64_t> strides = {12, 4, 1};
  int deleted = 0;
  DLManagedTensor managed{};

  Foreign() {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
    managed.dl_tensor = {values.data(), {kDLCPU, 0}, 3, {kDLFloat, 32, 1}, shape.data(), strides.data(), 0};
    managed.manager_ctx = this;
    managed.deleter = [](DLManagedTensor* self) { ++static_cast<Foreign*>(self->manager_ctx)->deleted; };
  }
};

class DeviceBuffer final : public Buffer {
 public:
  explicit DeviceBuffer(std::string device, bool writable = true) : device_(std::move(device)), writable_(writable) {}
  void* data() const override { return device_ == "tpu:0" ? nullptr : content_; }
  std::size_t bytes() const override { return sizeof content_; }
  std::string_view device() const override { return device_; }
  bool writable() const override { return writable_; }

 private:
  mutable std::byte content_[64] = {};
  std::string device_;
  bool writable_;
};

TEST(DlpackAbi, HasTheSizesOfTheFormat) {
  EXPECT_EQ(sizeof(DLDevice), 8U);
  EXPECT_EQ(sizeof(DLDataType), 4U);
  EXPECT_EQ(sizeof(DLTensor), 48U);
  EXPECT_EQ(sizeof(DLManagedTensor), 64U);
  EXPECT_EQ(offsetof(DLTensor, dtype), 20U);
  EXPECT_EQ(offsetof(DLTensor, byte_offset), 40U);
}

TEST(DlpackRoundTrip, KeepsTypeShapeStridesAndMemory) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const auto draw = [&](std::int64_t high) { return std::uniform_int_distribution<std::int64_t>(0, high)(random); };
  const std::vector<DType> types = {DType::kBool,    DType::kUInt8,     DType::kInt8,      DType::kUInt16,
                                    DType::kInt16,   DType::kUInt32,    DType::kInt32,     DType::kUInt64,
                                    DType::kInt64,   DType::kFloat16,   DType::kBFloat16,  DType::kFloat32,
                                    DType::kFloat64, DType::kComplex32, DType::kComplex64, DType::kComplex128};
  for (int round = 0; round < 400; ++round) {
    const DType dtype = types[static_cast<std::size_t>(round) % types.size()];
    Dims dims;
    Dims strides;
    std::int64_t end = 4;
    for (std::int64_t rank = draw(4); rank > 0; --rank) {
      dims.push_back(draw(3));
      strides.push_back(draw(6));
      end += 3 * strides[strides.size() - 1];
    }
    const Dims storage = {end};
    const auto whole = Tensor::empty(dtype, storage);
    ASSERT_TRUE(whole.ok());
    const auto tensor = Tensor::from_buffer(whole->buffer(), dtype, dims, strides, draw(3));
    ASSERT_TRUE(tensor.ok()) << tensor.status().message();
    auto managed = tensor->to_dlpack();
    ASSERT_TRUE(managed.ok()) << managed.status().message();
    const auto back = Tensor::from_dlpack(*managed);
    ASSERT_TRUE(back.ok()) << back.status().message();
    ASSERT_EQ(back->dtype(), dtype);
    ASSERT_EQ(back->dims(), dims);
    ASSERT_EQ(back->strides(), strides);
    ASSERT_EQ(back->device(), "cpu");
    if (tensor->element_count() > 0) {
      ASSERT_EQ(back->data(), tensor->data());
    }
  }
}

TEST(DlpackExport, HoldsAShareUntilTheTakerLetsGo) {
  int released = 0;
  float value = 1;
  auto tensor = Tensor::from_memory(DType::kFloat32, {}, &value, sizeof value, [&] { ++released; });
  ASSERT_TRUE(tensor.ok());
  DLManagedTensor* managed = *tensor->to_dlpack();
  tensor = Tensor();
  EXPECT_EQ(released, 0);
  EXPECT_EQ(managed->dl_tensor.ndim, 0);
  managed->deleter(managed);
  EXPECT_EQ(released, 1);
}

TEST(DlpackExport, NamesDevices) {
  for (const auto& [name, type, id] : {std::tuple{"nvidia:3", kDLCUDA, 3}, {"amd:1", kDLROCM, 1}, {"cpu", kDLCPU, 0}}) {
    const auto buffer = std::make_shared<DeviceBuffer>(name);
    DLManagedTensor* managed = *Tensor::unchecked(buffer, DType::kFloat32, {4}, {1}, 0).to_dlpack();
    EXPECT_EQ(managed->dl_tensor.device.device_type, type);
    EXPECT_EQ(managed->dl_tensor.device.device_id, id);
    EXPECT_EQ(Tensor::from_dlpack(managed)->device(), name);
  }
}

TEST(DlpackExport, RefusesWhatTheFormatLacks) {
  const auto code = [](const Tensor& tensor) { return tensor.to_dlpack().status().code(); };
  EXPECT_EQ(code(Tensor()), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(*Tensor::empty(DType::kFloat8E5M2, Dims{2})), StatusCode::kUnsupported);
  for (const char* device : {"tpu:0", "xla:x", "nvidia:", "nvidia:-1", "nvidia"}) {
    const auto buffer = std::make_shared<DeviceBuffer>(device);
    EXPECT_EQ(code(Tensor::unchecked(buffer, DType::kFloat32, {4}, {1}, 0)), StatusCode::kUnsupported) << device;
  }
  const auto mapped = std::make_shared<DeviceBuffer>("cpu", false);
  const auto status = Tensor::unchecked(mapped, DType::kFloat32, {4}, {1}, 0).to_dlpack().status();
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_THAT(status.message(), HasSubstr("read only"));
}

TEST(DlpackImport, TakesMemoryWithOffsetAndWithoutStrides) {
  Foreign foreign;
  foreign.shape = {2, 3, 3};
  foreign.managed.dl_tensor.strides = nullptr;
  foreign.managed.dl_tensor.byte_offset = 3 * sizeof(float);
  {
    const auto tensor = Tensor::from_dlpack(&foreign.managed);
    ASSERT_TRUE(tensor.ok());
    EXPECT_EQ(tensor->strides(), (Dims{9, 3, 1}));
    EXPECT_EQ(tensor->elements<float>()[0], 3.0F);
    EXPECT_EQ(foreign.deleted, 0);
  }
  EXPECT_EQ(foreign.deleted, 1);
}

TEST(DlpackImport, LetsGoOfWhatItRefuses) {
  const auto refused = [](const char* what, StatusCode code, auto&& spoil) {
    Foreign foreign;
    spoil(foreign.managed.dl_tensor, foreign);
    const auto tensor = Tensor::from_dlpack(&foreign.managed);
    EXPECT_EQ(tensor.status().code(), code) << what;
    EXPECT_EQ(foreign.deleted, 1) << what;
  };
  constexpr auto kBad = StatusCode::kInvalidArgument;
  constexpr auto kNot = StatusCode::kUnsupported;
  refused("rank 17", kBad, [](DLTensor& t, Foreign&) { t.ndim = 17; });
  refused("negative rank", kBad, [](DLTensor& t, Foreign&) { t.ndim = -1; });
  refused("no shape", kBad, [](DLTensor& t, Foreign&) { t.shape = nullptr; });
  refused("no address", kBad, [](DLTensor& t, Foreign&) { t.data = nullptr; });
  refused("negative extent", kBad, [](DLTensor&, Foreign& f) { f.shape[1] = -3; });
  refused("overflow", kBad, [](DLTensor&, Foreign& f) { f.shape = {INT64_MAX, INT64_MAX, 2}; });
  refused("negative stride", kBad, [](DLTensor&, Foreign& f) { f.strides[0] = -12; });
  refused("large stride", kBad, [](DLTensor&, Foreign& f) { f.strides[0] = INT64_MAX / 2; });
  refused("byte offset", kBad, [](DLTensor& t, Foreign&) { t.byte_offset = UINT64_MAX; });
  refused("lanes", kNot, [](DLTensor& t, Foreign&) { t.dtype.lanes = 4; });
  refused("bits", kNot, [](DLTensor& t, Foreign&) { t.dtype.bits = 4; });
  refused("code", kNot, [](DLTensor& t, Foreign&) { t.dtype.code = 3; });
  refused("device", kNot, [](DLTensor& t, Foreign&) { t.device.device_type = 99; });
  EXPECT_EQ(Tensor::from_dlpack(nullptr).status().code(), kBad);
}

}  // namespace
}  // namespace kpt
