// Runs that their callers leave, or that fail half way: they read no memory that is gone, and change all or nothing.
#include "engines/xla/execution/xla_run.h"

#include <sys/mman.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/log.h"
#include "engines/xla/execution/xla_tensor.h"
#include "engines/xla/testing/plugin_that_hangs.h"

namespace kpt {
namespace {

using testing::Clock;
using testing::filled;
using ::testing::HasSubstr;
using testing::kCounter;
using testing::kGraph;
using testing::kLimit;
using testing::kMuchLonger;
using testing::kShort;
using ::testing::Not;
using testing::order;

class XlaRunTest : public testing::PluginThatHangs {};

constexpr const char* kAnySize = R"(kpt_graph 1
symbol s0 in 1..100
input x: float32[s0]
sum: float32[s0] = aten.add.Tensor(self=%x, other=%x)
output %sum "y"
)";

constexpr const char* kTwoInputs = R"(kpt_graph 1
input x: float32[3]
input y: float32[3]
sum: float32[3] = aten.add.Tensor(self=%x, other=%y)
output %sum "z"
)";

constexpr const char* kTwoOutputs = R"(kpt_graph 1
input x: float32[3]
sum: float32[3] = aten.add.Tensor(self=%x, other=%x)
product: float32[3] = aten.mul.Tensor(self=%x, other=%x)
output %sum "y"
output %product "z"
)";

// The fake gives the input for the buffer, and the buffer for the input.
constexpr const char* kWritesBoth = R"(kpt_graph 1
buffer c: float32[3] "count"
input x: float32[3]
sum: float32[3] = aten.add.Tensor(self=%c, other=%x)
twice: float32[3] = aten.add.Tensor(self=%x, other=%x)
buffer_mutation %sum "count"
input_mutation %twice "x"
output %sum "y"
)";

// Memory of a caller's: reading it when it is gone ends the process.
class Page {
 public:
  Page() : data_(::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {}
  Page(const Page&) = delete;
  Page& operator=(const Page&) = delete;
  ~Page() { ::munmap(data_, kBytes); }
  Tensor tensor() const { return Tensor::from_memory(DType::kFloat32, Dims{3}, data_, 3 * sizeof(float)).value(); }

 private:
  static constexpr std::size_t kBytes = 4096;
  void* data_;
};

TEST_F(XlaRunTest, MemoryThatACallerFreesWhenItHasLeftIsNotReadAnyMore) {
  auto page = std::make_unique<Page>();
  const auto leave = [&](const auto& ask) {
    order(stall("PJRT_Client_BufferFromHostBuffer"));
    EXPECT_EQ(ask(page->tensor()).code(), StatusCode::kDeadlineExceeded);
    page = nullptr;
    open_gate();
  };
  const auto again = [&] {
    order("");
    std::filesystem::remove(gate());
    page = std::make_unique<Page>();
  };
  {
    XlaDevice device(target_, setup(kLongestCall));
    const auto executable = load(device, kGraph).value();
    leave([&](const Tensor& x) { return run_on(*executable, {x}, nullptr, kShort); });
    EXPECT_TRUE(run_when_free(*executable).ok());
  }
  expect_nothing_left();
  again();
  {
    XlaDevice device(target_, setup(kLimit));
    ASSERT_TRUE(device.client().ok());
    leave([&](const Tensor& x) { return device.upload(x).status(); });
  }
  expect_nothing_left();
  again();
  {
    XlaDevice device(target_, setup(kLimit));
    ASSERT_TRUE(device.client().ok());
    leave([&](const Tensor& x) { return load(device, kGraph, {{"weight", x}}).status(); });
  }
  expect_nothing_left();
  again();
  {
    XlaDevice device(target_, setup(kLimit));
    const auto executable = load(device, kCounter).value();
    const auto state = executable->make_state().value();
    leave([&](const Tensor& x) { return state->write("count", x); });
  }
  expect_nothing_left();
}

TEST_F(XlaRunTest, ARunThatWasLeftKeepsWhatItsTensorHeldThen) {
  XlaDevice device(target_, setup(kLongestCall));
  const auto executable = load(device, kTwoInputs).value();
  const Tensor there = device.upload(host_).value();
  const Tensor other = device.upload(host_).value();
  order(stall("PJRT_Client_BufferFromHostBuffer"));  // of the first input
  EXPECT_EQ(run_on(*executable, {host_, there}, nullptr, kShort).code(), StatusCode::kDeadlineExceeded);
  const int before = live_objects();
  const pjrt::Client& client = *device.client().value();
  find_xla_buffer(there, client).value()->replace(find_xla_buffer(other, client).value()->content());
  EXPECT_EQ(live_objects(), before);
  open_gate();
  EXPECT_TRUE(run_on(*executable, {host_, there}).ok());
  EXPECT_LT(live_objects(), before);
}

TEST_F(XlaRunTest, OutputsAreFetchedBeforeTheProgramIsWaitedFor) {
  XlaDevice device(target_, setup(kLongestCall));
  const auto executable = load(device, kTwoOutputs).value();
  order("say PJRT_LoadedExecutable_Execute run;say PJRT_Buffer_ToHostBuffer fetch;say PJRT_Event_Await wait");
  RunContext context;
  const Tensor inputs[] = {filled({3}, 5)};
  std::vector<Tensor> outputs;
  ::testing::internal::CaptureStdout();
  const Status status = executable->run(context, inputs, outputs);
  const std::string calls = ::testing::internal::GetCapturedStdout();
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_THAT(calls, HasSubstr("run\nfetch\nfetch\nwait\n"));
  ASSERT_EQ(outputs.size(), 2U);
  EXPECT_EQ(outputs[1].elements<float>()[2], 5);
}

TEST_F(XlaRunTest, AProgramThatFailsIsTheErrorOfTheRunNotWhatItLeftOut) {
  {
    XlaDevice device(target_, setup(kLongestCall));
    const auto executable = load(device, kWritesBoth).value();
    const auto state = executable->make_state().value();
    const Tensor x = filled({3}, 5);
    std::string lines;
    const auto capture = log::capture(&lines);
    order("break the board is on fire");
    const Status status = run_on(*executable, {x}, state.get());
    EXPECT_EQ(status.code(), StatusCode::kVendorLibrary);
    EXPECT_THAT(status.message(), HasSubstr("the board is on fire"));
    EXPECT_THAT(lines, Not(HasSubstr("nobody waited"))) << "one failure is told once";
    order("");
    EXPECT_EQ(state->read("count").value().elements<float>()[0], 3) << "as in the file";
    EXPECT_TRUE(run_on(*executable, {x}, state.get()).ok());
  }
  expect_nothing_left();
}

// An input that could not be brought back must not leave the buffers one run further.
TEST_F(XlaRunTest, WhatAModelWritesIsHandedBackWholeOrNotAtAll) {
  XlaDevice device(target_, setup(kLongestCall));
  const auto executable = load(device, kWritesBoth).value();
  const auto state = executable->make_state().value();
  const Tensor x = filled({3}, 5);
  order("fail PJRT_Buffer_ToHostBuffer 13 the link is down");
  EXPECT_THAT(run_on(*executable, {x}, state.get()).message(), HasSubstr("the link is down"));
  order("");
  EXPECT_EQ(state->read("count").value().elements<float>()[0], 3) << "as in the file";
  EXPECT_EQ(x.elements<float>()[0], 5);
  ASSERT_TRUE(run_on(*executable, {x}, state.get()).ok());
  EXPECT_EQ(state->read("count").value().elements<float>()[0], 5);
  EXPECT_EQ(x.elements<float>()[0], 3);
  // From now on a run takes the buffers.
  order("fail PJRT_Buffer_ToHostBuffer 13 the link is down");
  EXPECT_FALSE(run_on(*executable, {x}, state.get()).ok());
  order("");
  EXPECT_THAT(state->read("count").status().message(), HasSubstr("the buffers were lost"));
  EXPECT_EQ(x.elements<float>()[0], 3);
}

TEST_F(XlaRunTest, ABufferOfAnotherShapeIsNotTaken) {
  XlaDevice device(target_, setup(kLongestCall));
  const auto executable = load(device, R"(kpt_graph 1
buffer c: float32[3] "count"
input x: float32[1]
sum: float32[3] = aten.add.Tensor(self=%c, other=%x)
buffer_mutation %sum "count"
output %sum "y"
)")
                              .value();  // the fake gives x
  const auto state = executable->make_state().value();
  const Status status = run_on(*executable, {filled({1}, 5)}, state.get());
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_THAT(status.message(), HasSubstr("gives float32[1] for what the model writes to 'count'"));
  EXPECT_EQ(state->read("count").value().dims(), (Dims{3}));
}

TEST_F(XlaRunTest, ARunIsOverAtItsDeadlineWhileItsProgramIsCompiled) {
  {
    XlaDevice device(target_, setup(kLongestCall));
    auto executable = load(device, kAnySize).value();
    ASSERT_TRUE(run_on(*executable, {filled({4}, 1)}).ok());
    order(stall("PJRT_Client_Compile"));
    const auto start = Clock::now();
    for (int i = 0; i < 3; ++i) {
      const Status late = run(*executable, nullptr, kShort);
      EXPECT_EQ(late.code(), StatusCode::kDeadlineExceeded);
      EXPECT_THAT(late.message(), HasSubstr("while its program was compiled"));
    }
    const std::atomic<bool> never{false};
    EXPECT_TRUE(run_on(*executable, {filled({4}, 1)}, nullptr, kMuchLonger, &never).ok()) << "it waits for nobody";
    std::atomic<bool> cancelled{false};
    std::thread other([&cancelled] {
      std::this_thread::sleep_for(kShort);
      cancelled = true;
    });
    EXPECT_EQ(run(*executable, nullptr, {}, &cancelled).code(), StatusCode::kCancelled);
    other.join();
    EXPECT_LT(Clock::now() - start, kMuchLonger);
    std::thread opener([this] {
      std::this_thread::sleep_for(kShort);
      open_gate();
    });
    EXPECT_TRUE(run(*executable).ok());
    opener.join();
    std::filesystem::remove(gate());
    EXPECT_EQ(run_on(*executable, {filled({5}, 1)}, nullptr, kShort).code(), StatusCode::kDeadlineExceeded);
    executable.reset();
    EXPECT_GE(live_objects(), 1);
  }
  open_gate();
  expect_nothing_left();
}

}  // namespace
}  // namespace kpt
