// Copies that are begun and waited for later, on devices that a test makes.
#include "device/copies.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kpt {
namespace {

using ::testing::ElementsAre;

class NoTarget final : public Target {
 public:
  std::string_view name() const override { return "test"; }
  const Capabilities& capabilities() const override { return capabilities_; }
  Result<std::vector<Support>> supports(const ir::Graph& /*graph*/) const override { return std::vector<Support>(); }
  Result<std::unique_ptr<Program>> compile(ir::Graph /*graph*/) const override { return unsupported(); }
  Result<std::unique_ptr<Program>> deserialize(std::string_view /*bytes*/) const override { return unsupported(); }

 private:
  static Status unsupported() { return {StatusCode::kUnsupported, "it runs nothing"}; }
  Capabilities capabilities_;
};

// Copies everything at once and writes down what it was asked for.
class PlainDevice : public Device {
 public:
  const DeviceInfo& info() const override { return info_; }
  const Target& target() const override { return target_; }
  Result<Tensor> allocate(DType dtype, std::span<const std::int64_t> dims) override {
    return Tensor::empty(dtype, dims);
  }
  Result<Tensor> upload(const Tensor& host) override {
    asked.emplace_back("upload");
    return host.contiguous_copy();
  }
  Result<Tensor> download(const Tensor& tensor) override {
    asked.emplace_back("download");
    return tensor.contiguous_copy();
  }

  std::vector<std::string> asked;

 private:
  DeviceInfo info_;
  NoTarget target_;
};

// A copy is there when it was waited for.
class QueueingDevice final : public PlainDevice {
 public:
  Result<Tensor> begin_upload(const Tensor& host, Event* event) override { return begin(host, event); }
  Result<Tensor> begin_download(const Tensor& tensor, Event* event) override { return begin(tensor, event); }

  int refused = -1;  // which copy cannot be begun, which fails while it is made
  int broken = -1;

 private:
  class Copy final : public Event::Impl {
   public:
    Copy(QueueingDevice& device, int number) : device_(device), number_(number) {}
    Status wait() override {
      device_.asked.push_back("wait " + std::to_string(number_));
      return number_ == device_.broken ? Status(StatusCode::kDevice, "the copy failed") : Status();
    }
    bool done() const override { return false; }

   private:
    QueueingDevice& device_;
    int number_;
  };

  Result<Tensor> begin(const Tensor& tensor, Event* event) {
    const int number = count_++;
    if (number == refused) return Status(StatusCode::kOutOfMemory, "no room for the copy");
    asked.push_back("begin " + std::to_string(number));
    *event = Event(std::make_shared<Copy>(*this, number));
    return tensor.contiguous_copy();
  }

  int count_ = 0;
};

std::vector<Tensor> make_tensors() {
  std::vector<Tensor> tensors;
  for (int index = 0; index < 3; ++index) {
    tensors.push_back(Tensor::empty(DType::kFloat32, Dims{2}).value());
    tensors.back().elements<float>()[1] = static_cast<float>(index);
  }
  return tensors;
}

TEST(Copies, AllAreBegunBeforeTheFirstIsWaitedFor) {
  QueueingDevice device;
  const auto copies = upload_all(device, make_tensors());
  ASSERT_TRUE(copies.ok()) << copies.status().message();
  EXPECT_THAT(device.asked, ElementsAre("begin 0", "begin 1", "begin 2", "wait 0", "wait 1", "wait 2"));
  for (std::size_t index = 0; index < 3; ++index) {
    EXPECT_EQ((*copies)[index].elements<float>()[1], static_cast<float>(index));
  }
  device.asked.clear();
  EXPECT_TRUE(download_all(device, make_tensors()).ok());
  EXPECT_THAT(device.asked, ElementsAre("begin 3", "begin 4", "begin 5", "wait 3", "wait 4", "wait 5"));
}

TEST(Copies, WhatWasBegunIsWaitedForThoughAnotherFails) {
  QueueingDevice full;
  full.refused = 2;
  EXPECT_EQ(upload_all(full, make_tensors()).status().code(), StatusCode::kOutOfMemory);
  EXPECT_THAT(full.asked, ElementsAre("begin 0", "begin 1", "wait 0", "wait 1"));
  QueueingDevice faulty;
  faulty.broken = 0;
  EXPECT_EQ(download_all(faulty, make_tensors()).status().code(), StatusCode::kDevice);
  EXPECT_THAT(faulty.asked, ElementsAre("begin 0", "begin 1", "begin 2", "wait 0", "wait 1", "wait 2"));
}

TEST(Copies, DevicesThatQueueNothingAreDoneAtOnce) {
  PlainDevice device;
  const Tensor given = make_tensors()[2];
  QueueingDevice other;
  Event event;
  ASSERT_TRUE(other.begin_upload(given, &event).ok());
  ASSERT_FALSE(event.done());
  const auto up = device.begin_upload(given, &event);
  ASSERT_TRUE(up.ok());
  EXPECT_TRUE(event.done()) << "an event that the caller used before is not that of this copy";
  EXPECT_EQ(up->elements<float>()[1], 2);
  const auto down = device.begin_download(*up, &event);
  ASSERT_TRUE(down.ok());
  EXPECT_TRUE(event.wait().ok());
  EXPECT_THAT(device.asked, ElementsAre("upload", "download"));
}

TEST(Copies, BetweenDevicesOfTwoKindsTheyGoOverTheHost) {
  PlainDevice from;
  QueueingDevice to;
  Event event;
  const auto copy = to.begin_copy(from, make_tensors()[1], &event);
  ASSERT_TRUE(copy.ok());
  EXPECT_THAT(from.asked, ElementsAre("download"));
  EXPECT_THAT(to.asked, ElementsAre("begin 0"));
  EXPECT_FALSE(event.done()) << "the second half is queued";
  EXPECT_EQ(copy->elements<float>()[1], 1);
}

}  // namespace
}  // namespace kpt
