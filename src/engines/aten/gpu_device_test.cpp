// The device on a table that a test makes: what becomes of a module's answers.
#include "engines/aten/gpu_device.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engines/aten/graph_engine.h"

namespace kpt {
namespace {

using aten::CallCode;
using aten::CallOutcome;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

struct Answers {
  CallOutcome request{};  // of what takes memory
  CallOutcome statistics{};
  MemoryStatistics memory;
  std::vector<std::string> asked;
};
Answers& answers() {
  static Answers instance;
  return instance;
}

CallOutcome outcome(CallCode code, std::string_view text) {
  CallOutcome made{code, {}};
  std::ranges::copy(text, std::begin(made.text));
  return made;
}

CallOutcome allocate(std::int32_t /*index*/, DType /*dtype*/, const Dims* /*dims*/, Tensor* /*tensor*/) noexcept {
  return answers().request;
}

CallOutcome upload(std::int32_t /*index*/, const Tensor* /*host*/, Tensor* /*tensor*/) noexcept {
  return answers().request;
}

CallOutcome load_graph(std::int32_t /*index*/, const std::shared_ptr<const ir::Graph>* /*graph*/,
                       const Weights* /*weights*/, const aten::CudaMemoryLimits* /*limits*/,
                       const NvidiaPolicy* /*policy*/, const std::shared_ptr<gpu::Launcher>* /*launcher*/,
                       Status* /*status*/, std::unique_ptr<Executable>* /*executable*/) noexcept {
  return answers().request;
}

// A copy that is over when somebody waits for it.
struct QueuedCopy final : public Event::Impl {
  Status wait() override {
    over = true;
    return {};
  }
  bool done() const override { return over; }
  bool over = false;
};

CallOutcome begin_upload(std::int32_t /*index*/, const Tensor* host, Tensor* tensor, Event* event) noexcept {
  *event = Event(std::make_shared<QueuedCopy>());
  *tensor = *host;
  answers().asked.emplace_back("upload");
  return answers().request;
}

CallOutcome begin_copy(std::int32_t index, const Tensor* from, Tensor* tensor, Event* event) noexcept {
  *event = Event(std::make_shared<QueuedCopy>());
  *tensor = *from;
  answers().asked.push_back("copy to " + std::to_string(index));
  return answers().request;
}

CallOutcome download(const Tensor* tensor, Tensor* host) noexcept {
  *host = Tensor::empty(tensor->dtype(), tensor->dims()).value();
  answers().asked.emplace_back("download");
  return answers().request;
}

CallOutcome memory_statistics(std::int32_t /*index*/, MemoryStatistics* statistics) noexcept {
  *statistics = answers().memory;
  return answers().statistics;
}

const aten::CudaModuleTable& table() {
  static const aten::CudaModuleTable kTable = [] {
    aten::CudaModuleTable made{};
    made.allocate = allocate;
    made.upload = upload;
    made.load_graph = load_graph;
    made.memory_statistics = memory_statistics;
    made.begin_upload = begin_upload;
    made.begin_copy = begin_copy;
    made.download = download;
    return made;
  }();
  return kTable;
}

// Memory of a GPU, without an address.
class GpuBuffer final : public Buffer {
 public:
  explicit GpuBuffer(std::string device) : device_(std::move(device)) {}
  void* data() const override { return nullptr; }
  std::size_t bytes() const override { return 8; }
  std::string_view device() const override { return device_; }

 private:
  std::string device_;
};

Tensor tensor_on(const std::string& device) {
  return Tensor::unchecked(std::make_shared<GpuBuffer>(device), DType::kFloat32, {2}, {1}, 0);
}

class NoTarget final : public Target {
 public:
  std::string_view name() const override { return "nvidia:sm_90"; }
  const Capabilities& capabilities() const override { return capabilities_; }
  Result<std::vector<Support>> supports(const ir::Graph& /*graph*/) const override { return std::vector<Support>(); }
  Result<std::unique_ptr<Program>> compile(ir::Graph graph) const override {
    return std::unique_ptr<Program>(std::make_unique<GraphProgram>("nvidia:sm_90", std::move(graph)));
  }
  Result<std::unique_ptr<Program>> deserialize(std::string_view /*bytes*/) const override { return compile({}); }

 private:
  Capabilities capabilities_;
};

class AtenGpuDeviceTest : public ::testing::Test {
 protected:
  AtenGpuDeviceTest() {
    answers() = {};
    DeviceInfo info;
    info.name = "nvidia:0";
    device_.emplace(target_, table(), 0, info, Vendor::kNvidia, nullptr);
    answers().memory.total_bytes = 1000;
    answers().memory.free_bytes = 300;
  }

  // What a request of each kind comes to.
  std::vector<Status> ask() {
    const std::int64_t dims[] = {2};
    return {device_->allocate(DType::kFloat32, dims).status(), device_->upload(Tensor()).status(),
            device_->load(*target_.compile({}).value(), {}, {}, {}).status(),
            begin_upload_of(Tensor::empty(DType::kFloat32, dims).value()), begin_copy_of(tensor_on("nvidia:0"))};
  }

  Status begin_upload_of(const Tensor& host) {
    Event event;
    return device_->begin_upload(host, &event).status();
  }
  Status begin_copy_of(const Tensor& tensor) {
    Event event;
    return device_->begin_copy(*device_, tensor, &event).status();
  }

  NoTarget target_;
  std::optional<AtenGpuDevice> device_;
};

TEST_F(AtenGpuDeviceTest, TooLittleMemorySaysWhatWasNeededWhatThereIsAndWhatToDo) {
  answers().request = outcome(CallCode::kOutOfMemory, "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a ");
  for (const Status& status : ask()) {
    EXPECT_EQ(status.code(), StatusCode::kOutOfMemory);
    EXPECT_EQ(status.vendor(), Vendor::kNvidia);
    EXPECT_THAT(status.message(), HasSubstr("nvidia:0 failed: CUDA out of memory."));
    EXPECT_THAT(status.to_string(), HasSubstr("needed_bytes=2147483648, available_bytes=300, free_bytes=300, "
                                              "total_bytes=1000, advice=free memory that other models"));
  }
}

TEST_F(AtenGpuDeviceTest, WhatIsNotKnownOfAShortageIsLeftOut) {
  answers().request = outcome(CallCode::kOutOfMemory, "CUDNN_STATUS_ALLOC_FAILED");
  answers().statistics = outcome(CallCode::kFailed, "the device is lost");
  for (const Status& status : ask()) {
    EXPECT_EQ(status.code(), StatusCode::kOutOfMemory);
    EXPECT_THAT(status.to_string(), HasSubstr("CUDNN_STATUS_ALLOC_FAILED (advice="));
  }
}

TEST_F(AtenGpuDeviceTest, AShortageOfTheHostIsNotToldAsTheGpus) {
  answers().request =
      outcome(CallCode::kOutOfHostMemory, "can't allocate memory: you tried to allocate 4294967296 bytes");
  for (const Status& status : ask()) {
    EXPECT_EQ(status.code(), StatusCode::kOutOfMemory);
    EXPECT_EQ(status.vendor(), Vendor::kNone);
    EXPECT_THAT(status.to_string(), HasSubstr("the host's memory ran out: can't allocate memory"));
    EXPECT_THAT(status.to_string(), Not(HasSubstr("free_bytes=")));
  }
}

TEST_F(AtenGpuDeviceTest, OtherFailuresSayNothingOfMemory) {
  answers().request = outcome(CallCode::kFailed, "an illegal memory access. Tried to allocate 2.00 GiB");
  for (const Status& status : ask()) {
    EXPECT_EQ(status.code(), StatusCode::kVendorLibrary);
    EXPECT_THAT(status.to_string(), Not(HasSubstr("bytes=")));
  }
}

TEST_F(AtenGpuDeviceTest, CopiesBetweenGpusOfOneLibraryDoNotTouchTheHost) {
  DeviceInfo info;
  info.name = "nvidia:1";
  AtenGpuDevice other(target_, table(), 1, info, Vendor::kNvidia, nullptr);
  Event event;
  ASSERT_TRUE(other.begin_copy(*device_, tensor_on("nvidia:0"), &event).ok());
  EXPECT_THAT(answers().asked, ElementsAre("copy to 1"));
  EXPECT_FALSE(event.done());
  EXPECT_TRUE(event.wait().ok());
  EXPECT_TRUE(event.done());
  ASSERT_TRUE(device_->begin_copy(*device_, tensor_on("nvidia:0"), &event).ok()) << "to itself";
  EXPECT_THAT(answers().asked, ElementsAre("copy to 1", "copy to 0"));
}

TEST_F(AtenGpuDeviceTest, CopiesFromAnotherLibrarysGpuGoOverTheHost) {
  const aten::CudaModuleTable others = table();
  DeviceInfo info;
  info.name = "amd:0";
  AtenGpuDevice other(target_, others, 0, info, Vendor::kAmd, nullptr);
  Event event;
  ASSERT_TRUE(device_->begin_copy(other, tensor_on("amd:0"), &event).ok());
  EXPECT_THAT(answers().asked, ElementsAre("download", "upload"));
  EXPECT_FALSE(event.done());
}

TEST_F(AtenGpuDeviceTest, WhatLiesOnTheHostIsThereWithoutACopy) {
  Event event;
  const Tensor host = Tensor::empty(DType::kFloat32, Dims{2}).value();
  ASSERT_TRUE(device_->begin_upload(host, &event).ok());
  ASSERT_FALSE(event.done());
  const auto same = device_->begin_download(host, &event);
  ASSERT_TRUE(same.ok());
  EXPECT_EQ(same->data(), host.data());
  EXPECT_TRUE(event.done());
}

TEST(RequireGpuWork, WhatWasHeardOfTheHostAloneIsASentence) {
  using Kind = Activity::Kind;
  const auto hear = [](std::vector<Activity> activities) {
    return require_gpu_work(std::move(activities), "amd:1", Vendor::kAmd, "the tracer", "set another engine");
  };
  for (const Kind kind : {Kind::kKernel, Kind::kCopy}) {
    const auto heard = hear({{Kind::kOperator, "aten::mm"}, {kind, "on the device"}});
    ASSERT_TRUE(heard.ok()) << heard.status().to_string();
    EXPECT_EQ(heard->size(), 2U);
  }
  for (const Status& status :
       {hear({}).status(), hear({{Kind::kOperator, "aten::mm"}, {Kind::kCall, "hip"}}).status()}) {
    EXPECT_EQ(status.code(), StatusCode::kUnsupported);
    EXPECT_EQ(status.vendor(), Vendor::kAmd);
    EXPECT_EQ(status.message(), "the tracer told of no work on amd:1: set another engine");
  }
}

}  // namespace
}  // namespace kpt
