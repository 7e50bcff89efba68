// A device whose plugin does not come back: nobody waits beyond the limit, and what the plugin has stays alive.
#include "engines/xla/execution/xla_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/log.h"
#include "engines/xla/testing/plugin_that_hangs.h"

namespace kpt {
namespace {

using ::testing::AllOf;
using testing::Clock;
using testing::filled;
using ::testing::HasSubstr;
using testing::kCounter;
using testing::kGraph;
using testing::kLimit;
using testing::kMuchLonger;
using testing::kShort;
using testing::order;

class XlaDeviceTest : public testing::PluginThatHangs {};

constexpr const char* kFourWeights = R"(kpt_graph 1
input x: float32[3]
parameter a: float32[3] "a"
parameter b: float32[3] "b"
parameter c: float32[3] "c"
parameter d: float32[3] "d"
xa: float32[3] = aten.add.Tensor(self=%x, other=%a)
xb: float32[3] = aten.add.Tensor(self=%xa, other=%b)
xc: float32[3] = aten.add.Tensor(self=%xb, other=%c)
xd: float32[3] = aten.add.Tensor(self=%xc, other=%d)
output %xd "y"
)";

TEST_F(XlaDeviceTest, ARunThatHangsEndsAtItsDeadlineInWhateverCall) {
  for (const char* call :
       {"PJRT_Client_BufferFromHostBuffer", "PJRT_LoadedExecutable_Execute", "PJRT_Buffer_ElementType",
        "PJRT_Event_Await", "PJRT_Buffer_ToHostBuffer", "PJRT_Buffer_Destroy", "PJRT_Event_Destroy"}) {
    SCOPED_TRACE(call);
    XlaDevice device(target_, setup(kLongestCall));
    const auto executable = load(device, kGraph);
    ASSERT_TRUE(executable.ok()) << executable.status().message();
    ASSERT_TRUE(run(**executable).ok());
    order(std::string("hang ") + call);
    const Status status = run(**executable, nullptr, kShort);
    EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded);
    EXPECT_THAT(status.message(), AllOf(HasSubstr("passed its time limit"), HasSubstr("xla:fake")));
    // The next one waits for it, and no longer than it may.
    EXPECT_EQ(run(**executable, nullptr, kShort).code(), StatusCode::kDeadlineExceeded);
    order("");
  }
}

TEST_F(XlaDeviceTest, WhatThePluginHasLivesUntilItComesBack) {
  {
    XlaDevice device(target_, setup(kLongestCall));
    auto executable = load(device, kGraph).value();
    order(stall("PJRT_LoadedExecutable_Execute"));
    EXPECT_EQ(run(*executable, nullptr, kShort).code(), StatusCode::kDeadlineExceeded);
    const int before = live_objects();
    EXPECT_GE(before, 4) << "client, program, weight and input";
    executable.reset();
    EXPECT_GE(live_objects(), before);
  }
  EXPECT_GE(live_objects(), 4);
  open_gate();
  expect_nothing_left();
}

TEST_F(XlaDeviceTest, LettingGoEndsAtTheLimitAndIsDoneInTheEnd) {
  for (const char* call :
       {"PJRT_Buffer_Destroy", "PJRT_LoadedExecutable_Destroy", "PJRT_Executable_Destroy", "PJRT_Client_Destroy"}) {
    SCOPED_TRACE(call);
    std::string lines;
    const auto start = Clock::now();
    {
      const auto capture = log::capture(&lines);
      XlaDevice device(target_, setup(kLimit));
      auto executable = load(device, kCounter).value();
      auto state = executable->make_state().value();
      ASSERT_TRUE(run(*executable, state.get()).ok());
      ASSERT_TRUE(run(*executable, state.get()).ok());
      Tensor there = device.upload(host_).value();
      order(stall(call));
      there = Tensor();
      state.reset();
      executable.reset();
    }
    EXPECT_LT(Clock::now() - start, kMuchLonger);
    EXPECT_THAT(lines, HasSubstr("keeps what it was asked to let go"));
    EXPECT_GE(live_objects(), 1);
    open_gate();
    expect_nothing_left();
    order("");
    std::filesystem::remove(gate());
  }
}

// What a run has overwritten is let go by the next one, and by whoever changes the state.
TEST_F(XlaDeviceTest, BuffersOfAStateAreLetGoWithinTheLimit) {
  XlaDevice device(target_, setup(kLimit));
  const auto executable = load(device, kCounter).value();
  const auto state = executable->make_state().value();
  ASSERT_TRUE(run(*executable, state.get()).ok());
  ASSERT_TRUE(run(*executable, state.get()).ok());
  order(stall("PJRT_Buffer_Destroy"));
  EXPECT_EQ(run(*executable, state.get(), kShort).code(), StatusCode::kDeadlineExceeded);
  open_gate();
  ASSERT_TRUE(state->reset().ok());
  EXPECT_TRUE(run_when_free(*executable, state.get()).ok());
  ASSERT_TRUE(run_when_free(*executable, state.get()).ok());
  std::filesystem::remove(gate());
  const auto start = Clock::now();
  std::string lines;
  {
    const auto capture = log::capture(&lines);
    EXPECT_TRUE(state->write("count", host_).ok());
    EXPECT_TRUE(state->reset().ok());
  }
  EXPECT_LT(Clock::now() - start, kMuchLonger);
  EXPECT_THAT(lines, AllOf(HasSubstr("keeps what it was asked to let go"), HasSubstr("owner=fake")));
  open_gate();
  EXPECT_TRUE(run_when_free(*executable, state.get()).ok());
  order("hang PJRT_Buffer_ToHostBuffer");
  EXPECT_THAT(state->read("count").status().message(), HasSubstr("when asked to give back a buffer"));
}

TEST_F(XlaDeviceTest, WithoutADeadlineTheLimitIsTheDevicesAndFurtherRunsAreRefusedAtOnce) {
  XlaDevice device(target_, setup(kLimit));
  const auto executable = load(device, kGraph).value();
  order(stall("PJRT_LoadedExecutable_Execute"));
  EXPECT_EQ(run(*executable).code(), StatusCode::kDeadlineExceeded);
  const auto start = Clock::now();
  Status refused;
  for (int i = 0; i < 20; ++i) refused = run(*executable);
  EXPECT_LT(Clock::now() - start, 20 * kShort);
  EXPECT_EQ(refused.code(), StatusCode::kDeviceNotAvailable);
  EXPECT_THAT(refused.message(), AllOf(HasSubstr("xla:fake does not answer"), HasSubstr("kpt doctor")));
  open_gate();
  const Status again = run_when_free(*executable);
  EXPECT_TRUE(again.ok()) << again.message();
}

TEST_F(XlaDeviceTest, ADeviceMayLeaveRunsWithoutADeadlineAllTheirTime) {
  XlaDeviceSetup made = setup(kLimit);
  made.limits_runs = false;
  XlaDevice device(target_, made);
  const auto executable = load(device, kGraph).value();
  order(stall("PJRT_LoadedExecutable_Execute"));
  const auto open_late = [this] {
    std::this_thread::sleep_for(kLimit + 2 * kShort);
    open_gate();
  };
  std::thread opener(open_late);
  const Status slow = run(*executable);
  EXPECT_TRUE(slow.ok()) << slow.message();
  opener.join();
  std::filesystem::remove(gate());
  // Also while another one is still in the plugin.
  EXPECT_EQ(run(*executable, nullptr, kShort).code(), StatusCode::kDeadlineExceeded);
  opener = std::thread(open_late);
  const Status after = run(*executable);
  EXPECT_TRUE(after.ok()) << after.message();
  opener.join();
}

TEST_F(XlaDeviceTest, ACancelledRunIsNotWaitedForAndTheNextOneComesAfterIt) {
  XlaDevice device(target_, setup(kLongestCall));
  const auto executable = load(device, kGraph).value();
  order(stall("PJRT_LoadedExecutable_Execute"));
  std::atomic<bool> cancelled{false};
  std::thread other([&cancelled] {
    std::this_thread::sleep_for(kShort);
    cancelled = true;
  });
  EXPECT_EQ(run(*executable, nullptr, {}, &cancelled).code(), StatusCode::kCancelled);
  other.join();
  std::thread opener([this] {
    std::this_thread::sleep_for(kShort);
    open_gate();
  });
  const Status next = run(*executable);
  EXPECT_TRUE(next.ok()) << next.message();
  opener.join();
}

TEST_F(XlaDeviceTest, BuffersThatALateRunMayOverwriteAreLostAndOthersAreNot) {
  XlaDevice device(target_, setup(kLongestCall));
  const auto executable = load(device, kCounter).value();
  const auto state = executable->make_state().value();
  // The first run reads what all states share.
  order(stall("PJRT_LoadedExecutable_Execute"));
  EXPECT_EQ(run(*executable, state.get(), kShort).code(), StatusCode::kDeadlineExceeded);
  open_gate();
  const Status after = run(*executable, state.get());
  EXPECT_TRUE(after.ok()) << after.message();
  std::filesystem::remove(gate());
  // The second one was given what the first had made.
  EXPECT_EQ(run(*executable, state.get(), kShort).code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(state->read("count").status().message(), HasSubstr("the buffers were lost"));
  open_gate();
  EXPECT_THAT(run(*executable, state.get()).message(), HasSubstr("reset the session"));
  ASSERT_TRUE(state->reset().ok());
  EXPECT_TRUE(run(*executable, state.get()).ok());
}

TEST_F(XlaDeviceTest, APluginThatNeverOpensItsDevicesIsASentence) {
  XlaDevice device(target_, setup(kShort));
  order("hang PJRT_Client_Create");
  const auto start = Clock::now();
  const Status late = device.client().status();
  EXPECT_EQ(late.code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(late.message(),
              HasSubstr("PJRT plugin fake has not answered within 0.2 s when asked to open its devices"));
  const Status again = device.upload(host_).status();
  EXPECT_EQ(again.code(), StatusCode::kDeviceNotAvailable);
  EXPECT_THAT(again.message(), HasSubstr("has not come back from an earlier request"));
  EXPECT_LT(Clock::now() - start, kMuchLonger);
}

TEST_F(XlaDeviceTest, APluginThatNeverCompilesIsASentence) {
  XlaDeviceSetup made = setup(kLongestCall);
  made.compile_limit = kShort;
  XlaDevice device(target_, made);
  order("hang PJRT_Client_Compile");
  const auto start = Clock::now();
  const Status late = load(device, kGraph).status();
  EXPECT_EQ(late.code(), StatusCode::kCompilationTimeout);
  EXPECT_THAT(late.message(), HasSubstr("PJRT plugin fake has not compiled the program within 0.2 s"));
  EXPECT_LT(Clock::now() - start, kMuchLonger);
}

TEST_F(XlaDeviceTest, LoadingAndMovingTensorsEndAtTheLimitToo) {
  XlaDevice device(target_, setup(kLimit));
  const Tensor there = device.upload(host_).value();
  const auto executable = load(device, kCounter).value();
  const auto state = executable->make_state().value();
  order("hang PJRT_Client_BufferFromHostBuffer");
  EXPECT_THAT(load(device, kGraph).status().message(), HasSubstr("when asked to take a weight"));
  order(stall("PJRT_Client_BufferFromHostBuffer"));
  EXPECT_THAT(state->write("count", host_).message(), HasSubstr("when asked to take a buffer"));
  EXPECT_THAT(device.upload(host_).status().message(), HasSubstr("when asked to take a tensor"));
  EXPECT_EQ(device.download(there).status().code(), StatusCode::kDeviceNotAvailable);
  open_gate();
  for (const auto end = Clock::now() + kMuchLonger; Clock::now() < end;) {
    if (device.download(there).ok()) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_TRUE(device.upload(host_).ok());
  EXPECT_TRUE(run_when_free(*executable, state.get()).ok());
}

TEST_F(XlaDeviceTest, EveryWeightHasTheLimitForItself) {
  XlaDevice device(target_, setup(kLimit));
  ASSERT_TRUE(device.client().ok());
  order("slow PJRT_Client_BufferFromHostBuffer 700");
  const auto executable =
      load(device, kFourWeights, {{"a", filled({3}, 1)}, {"b", filled({3}, 2)}, {"c", filled({3}, 3)}, {"d", host_}});
  EXPECT_TRUE(executable.ok()) << executable.status().message();
}

TEST_F(XlaDeviceTest, QuestionsAboutMemoryEndAtTheLimit) {
  XlaDeviceSetup made = setup(kLimit);
  made.compile_limit = kLimit;
  const auto start = Clock::now();
  {
    XlaDevice device(target_, made);
    XlaLoadExtras extras;
    extras.check_memory = [](const pjrt::ProgramMemory&) { return Status(); };
    order("hang PJRT_Executable_GetCompiledMemoryStats");
    const Status late = load(device, kGraph, {{"weight", host_}}, extras).status();
    EXPECT_EQ(late.code(), StatusCode::kDeadlineExceeded);
    EXPECT_THAT(late.message(), HasSubstr("when asked to tell what memory a program needs"));
    order("hang PJRT_Device_MemoryStats");
    EXPECT_THAT(device.first_memory().status().message(), HasSubstr("when asked to count its memory"));
    EXPECT_EQ(device.memory().status().code(), StatusCode::kDeviceNotAvailable);
  }
  EXPECT_LT(Clock::now() - start, kMuchLonger);
}

TEST_F(XlaDeviceTest, AStateThatHasTheLastShareOfTheClientLetsItGoWithinTheLimit) {
  std::unique_ptr<State> state;
  {
    XlaDevice device(target_, setup(kLimit));
    state = load(device, kCounter).value()->make_state().value();
  }
  order(stall("PJRT_Client_Destroy"));
  const auto start = Clock::now();
  std::atomic<bool> is_over{false};
  std::thread opener([this, start, &is_over] {
    while (!is_over && Clock::now() - start < 4 * kLimit) std::this_thread::sleep_for(kShort);
    open_gate();
  });
  std::string lines;
  {
    const auto capture = log::capture(&lines);
    state.reset();
  }
  is_over = true;
  EXPECT_LT(Clock::now() - start, 3 * kLimit);
  EXPECT_THAT(lines, HasSubstr("keeps what it was asked to let go"));
  opener.join();
  expect_nothing_left();
}

}  // namespace
}  // namespace kpt
