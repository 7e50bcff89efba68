// What a recorder does while the GPU hangs, on the test libamdhip64 of tests/fakes. That it hears everything is shown
// with whole models in amd_backend_test.cpp.
#include "backends/amd/hip_recorder.h"

#include <array>
#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/amd/fake_hip.h"
#include "backends/amd/hip_launcher.h"
#include "backends/amd/test_gpu.h"
#include "kernels/gpu/softmax.h"

namespace kpt {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

constexpr std::chrono::milliseconds kShort{80};

class HipRecorderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto library = DynamicLibrary::open(kFakeHip);
    ASSERT_TRUE(library.ok()) << library.status().to_string();
    library->find<void (*)()>("fake_hip_reset")();
    live_ = library->find<std::size_t (*)()>("fake_hip_live");
    calls_ = library->find<const char* (*)()>("fake_hip_calls");
    gpu_.order();
    const auto runtime = HipRuntime::open({kFakeHip});
    ASSERT_TRUE(runtime.ok()) << runtime.status().to_string();
    auto device = HipRuntime::open_device(*runtime, 0);
    ASSERT_TRUE(device.ok()) << device.status().to_string();
    device_.emplace(*device);
  }
  void TearDown() override { EXPECT_EQ(live_(), kept_) << "objects were not given back"; }

  // A softmax of 37 numbers while `recorder` listens; nobody waits for it.
  Status launch(HipRecorder& recorder) const {
    KPT_ASSIGN_OR_RETURN(const HipMemory memory, device_->allocate(37 * sizeof(float)));
    std::memset(memory.data(), 0, memory.bytes());
    const std::array objects = {testing::forge_family("softmax", "gfx942").value()};
    KPT_ASSIGN_OR_RETURN(const auto launcher, HipLauncher::make(*device_, 4, objects));
    KPT_ASSIGN_OR_RETURN(const HipStream stream, device_->make_stream());
    gpu::SoftmaxCall call;
    call.input = call.output = memory.data();
    call.queries = 1;
    call.width = call.input_stride = 37;
    return recorder.around(Activity::Kind::kKernel, "softmax", "hipModuleLaunchKernel", stream, [&] {
      return gpu::run_plan(*launcher, gpu::plan_softmax(call, launcher->shape()), stream.get());
    });
  }

  testing::TestGpu gpu_{"gfx942"};
  std::optional<HipDevice> device_;
  std::size_t (*live_)() = nullptr;
  const char* (*calls_)() = nullptr;
  std::size_t kept_ = 0;  // objects that are kept on purpose
};

void expect_late(const Status& status) {
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded) << status.to_string();
  EXPECT_THAT(status.message(), HasSubstr("hipEventQuery still says 'not ready' after"));
  EXPECT_EQ(status.vendor(), Vendor::kAmd);
}

TEST_F(HipRecorderTest, AGpuThatHangsAtTheBeginningMeetsTheLimit) {
  HipRecorder recorder(*device_, kShort);
  gpu_.order(R"("streams_hang": true,)");
  const auto begin = std::chrono::steady_clock::now();
  expect_late(recorder.start());
  EXPECT_GE(std::chrono::steady_clock::now() - begin, kShort);
  EXPECT_THAT(calls_(), Not(HasSubstr("hanging"))) << "destroying the stream would wait for ever";
  kept_ = 2;  // the stream and its event
  gpu_.order();
  ASSERT_TRUE(recorder.start().ok()) << "nobody listens";
  ASSERT_TRUE(launch(recorder).ok());
  EXPECT_THAT(recorder.finish().value(), SizeIs(2)) << "the kernel and the call";
}

TEST_F(HipRecorderTest, AKernelThatHangsWhileItListensMeetsTheLimit) {
  HipRecorder recorder(*device_, kShort);
  ASSERT_TRUE(recorder.start().ok());
  ASSERT_TRUE(launch(recorder).ok());
  gpu_.order(R"("kernel_hangs": true,)");
  ASSERT_TRUE(launch(recorder).ok());
  ASSERT_TRUE(launch(recorder).ok());
  const auto begin = std::chrono::steady_clock::now();
  expect_late(recorder.finish().status());
  EXPECT_GE(std::chrono::steady_clock::now() - begin, kShort);
  gpu_.order();
  EXPECT_THAT(recorder.finish().value(), SizeIs(0)) << "it listens no more";
  ASSERT_TRUE(recorder.start().ok());
  ASSERT_TRUE(launch(recorder).ok());
  EXPECT_THAT(recorder.finish().value(), SizeIs(2));
}

TEST_F(HipRecorderTest, WorkThatEndsWithinTheLimitIsWaitedFor) {
  HipRecorder recorder(*device_);
  gpu_.order(R"("events_wait": 300,)");
  ASSERT_TRUE(recorder.start().ok());
  ASSERT_TRUE(launch(recorder).ok());
  const auto heard = recorder.finish();
  ASSERT_TRUE(heard.ok()) << heard.status().to_string();
  EXPECT_THAT(*heard, SizeIs(2));
}

}  // namespace
}  // namespace kpt
