// The device on a table that a test makes: what becomes of a module's answers.
#include "engines/aten/gpu_device.h"

#include <algorithm>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engines/aten/graph_engine.h"

namespace kpt {
namespace {

using aten::CallCode;
using aten::CallOutcome;
using ::testing::HasSubstr;
using ::testing::Not;

struct Answers {
  CallOutcome request{};  // of what takes memory
  CallOutcome statistics{};
  MemoryStatistics memory;
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
    return made;
  }();
  return kTable;
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
            device_->load(*target_.compile({}).value(), {}, {}, {}).status()};
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

TEST_F(AtenGpuDeviceTest, OtherFailuresSayNothingOfMemory) {
  answers().request = outcome(CallCode::kFailed, "an illegal memory access. Tried to allocate 2.00 GiB");
  for (const Status& status : ask()) {
    EXPECT_EQ(status.code(), StatusCode::kVendorLibrary);
    EXPECT_THAT(status.to_string(), Not(HasSubstr("bytes=")));
  }
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
