// A device whose plugin does not come back: nobody waits beyond the limit, and what the plugin has stays alive.
#include "engines/xla/execution/xla_device.h"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/dynamic_library.h"
#include "base/log.h"
#include "ir/text.h"
#include "support/hardware_fixture.h"
#include "support/tree_paths.h"

namespace kpt {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kShort{200};
constexpr std::chrono::seconds kMuchLonger{20};  // than the limit, for a busy machine

// The fake's programs give their arguments back.
constexpr const char* kGraph = R"(kpt_graph 1
input x: float32[3]
parameter w: float32[3] "weight"
sum: float32[3] = aten.add.Tensor(self=%x, other=%w)
output %sum "y"
)";

constexpr const char* kCounter = R"(kpt_graph 1
buffer c: float32[3] "count"
input x: float32[3]
sum: float32[3] = aten.add.Tensor(self=%c, other=%x)
buffer_mutation %sum "count"
output %sum "y"
)";

void order(const std::string& text) {
  ::setenv("FAKE_PJRT", text.c_str(), 1);  // NOLINT(concurrency-mt-unsafe): no thread reads it now
}

class FakeTarget final : public Target {
 public:
  std::string_view name() const override { return "xla:fake"; }
  const Capabilities& capabilities() const override { return capabilities_; }
  Result<std::vector<Support>> supports(const ir::Graph& graph) const override { return xla::check_lowering(graph); }
  Result<std::unique_ptr<Program>> compile(ir::Graph graph) const override {
    return XlaProgram::make("xla:fake", std::move(graph));
  }
  Result<std::unique_ptr<Program>> deserialize(std::string_view bytes) const override {
    return XlaProgram::deserialize("xla:fake", bytes);
  }

 private:
  Capabilities capabilities_ = xla_capabilities();
};

// Each test has its own copy of the plugin, so that none meets what another left in it.
class XlaDeviceTest : public ::testing::Test {
 protected:
  XlaDeviceTest() {
    order("");
    std::filesystem::copy_file(build_dir() + "/fakes/pjrt/fake_pjrt_plugin.so", plugin());
    host_ = Tensor::empty(DType::kFloat32, Dims{3}).value();
    for (float& value : host_.elements<float>()) value = 3;
  }
  ~XlaDeviceTest() override { order(""); }

  std::string plugin() const { return (folder_.path() / "fake.so").string(); }
  std::string gate() const { return (folder_.path() / "gate").string(); }
  void open_gate() const { std::ofstream(gate()) << ""; }
  std::string stall(const std::string& call) const { return "stall " + call + " " + gate(); }
  int live_objects() const {
    return DynamicLibrary::open(plugin()).value().find<int (*)()>("fake_pjrt_live_objects")();
  }

  XlaDeviceSetup setup(std::chrono::milliseconds limit) const {
    XlaDeviceSetup made;
    made.info = {"xla:fake", "fake", "", 0, true, ""};
    made.plugin.name = "fake";
    made.plugin.path = plugin();
    made.call_limit = limit;
    return made;
  }
  Result<std::unique_ptr<Executable>> load(XlaDevice& device, const char* graph) const {
    KPT_ASSIGN_OR_RETURN(auto program, target_.compile(ir::read_graph(graph).value()));
    std::shared_ptr<const Program> shared = std::move(program);
    return load_on_device(device, std::dynamic_pointer_cast<const XlaProgram>(shared),
                          {{"weight", host_}, {"count", host_}}, context_);
  }
  Status run(Executable& executable, State* state = nullptr, std::chrono::milliseconds limit = {},
             const std::atomic<bool>* cancelled = nullptr) const {
    RunContext context;
    context.state = state;
    context.cancelled = cancelled;
    if (limit.count() > 0) context.deadline = Clock::now() + limit;
    std::vector<Tensor> outputs;
    const Tensor inputs[] = {host_};
    const auto start = Clock::now();
    Status status = executable.run(context, inputs, outputs);
    EXPECT_LT(Clock::now() - start, kMuchLonger);
    EXPECT_EQ(outputs.size(), status.ok() ? 1U : 0U);
    return status;
  }
  // Until the plugin has let the run go.
  Status run_when_free(Executable& executable, State* state = nullptr) const {
    Status status;
    for (const auto end = Clock::now() + kMuchLonger; Clock::now() < end;) {
      status = run(executable, state);
      if (status.code() != StatusCode::kDeviceNotAvailable) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return status;
  }

  testing::TemporaryFolder folder_;
  BackendContext context_;
  FakeTarget target_;
  Tensor host_;
};

TEST_F(XlaDeviceTest, ARunThatHangsEndsAtItsDeadlineInWhateverCall) {
  for (const char* call :
       {"PJRT_Client_BufferFromHostBuffer", "PJRT_LoadedExecutable_Execute", "PJRT_Buffer_ElementType",
        "PJRT_Event_Await", "PJRT_Buffer_ToHostBuffer", "PJRT_Buffer_Destroy", "PJRT_Event_Destroy"}) {
    SCOPED_TRACE(call);
    XlaDevice device(target_, setup(pjrt::kLongestCall));
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
    XlaDevice device(target_, setup(pjrt::kLongestCall));
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
  for (const auto end = Clock::now() + kMuchLonger; live_objects() > 0 && Clock::now() < end;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_EQ(live_objects(), 0) << "all of it is let go in the end";
}

TEST_F(XlaDeviceTest, LettingGoEndsAtTheLimitAndIsDoneInTheEnd) {
  for (const char* call :
       {"PJRT_Buffer_Destroy", "PJRT_LoadedExecutable_Destroy", "PJRT_Executable_Destroy", "PJRT_Client_Destroy"}) {
    SCOPED_TRACE(call);
    std::string lines;
    const auto start = Clock::now();
    {
      const auto capture = log::capture(&lines);
      XlaDevice device(target_, setup(kShort));
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
    for (const auto end = Clock::now() + kMuchLonger; live_objects() > 0 && Clock::now() < end;) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    EXPECT_EQ(live_objects(), 0);
    order("");
    std::filesystem::remove(gate());
  }
}

// What a run has overwritten is let go by the next one, and by whoever changes the state.
TEST_F(XlaDeviceTest, BuffersOfAStateAreLetGoWithinTheLimit) {
  XlaDevice device(target_, setup(kShort));
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
  EXPECT_THAT(lines, AllOf(HasSubstr("keeps what it was asked to let go"), HasSubstr("plugin=fake")));
  open_gate();
  EXPECT_TRUE(run_when_free(*executable, state.get()).ok());
  order("hang PJRT_Buffer_ToHostBuffer");
  EXPECT_THAT(state->read("count").status().message(), HasSubstr("when asked to give back a buffer"));
}

TEST_F(XlaDeviceTest, WithoutADeadlineTheLimitIsTheDevicesAndFurtherRunsAreRefusedAtOnce) {
  XlaDevice device(target_, setup(kShort));
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
  XlaDeviceSetup made = setup(kShort);
  made.limits_runs = false;
  XlaDevice device(target_, made);
  const auto executable = load(device, kGraph).value();
  order(stall("PJRT_LoadedExecutable_Execute"));
  std::thread opener([this] {
    std::this_thread::sleep_for(4 * kShort);
    open_gate();
  });
  const Status slow = run(*executable);
  EXPECT_TRUE(slow.ok()) << slow.message();
  opener.join();
  std::filesystem::remove(gate());
  EXPECT_EQ(run(*executable, nullptr, kShort).code(), StatusCode::kDeadlineExceeded);
  open_gate();
  EXPECT_TRUE(run_when_free(*executable).ok());
}

TEST_F(XlaDeviceTest, ACancelledRunIsNotWaitedForAndTheNextOneComesAfterIt) {
  XlaDevice device(target_, setup(pjrt::kLongestCall));
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
  XlaDevice device(target_, setup(pjrt::kLongestCall));
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
  XlaDeviceSetup made = setup(pjrt::kLongestCall);
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
  XlaDevice device(target_, setup(kShort));
  const Tensor there = device.upload(host_).value();
  const auto executable = load(device, kCounter).value();
  const auto state = executable->make_state().value();
  order("hang PJRT_Client_BufferFromHostBuffer");
  EXPECT_THAT(load(device, kGraph).status().message(), HasSubstr("when asked to take the weights"));
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

}  // namespace
}  // namespace kpt
