// Planned launches on a machine that does not come back from calls. backends/amd/amd_hang_test.cpp has every call of a
// real interface.
#include "engines/native/guarded_executable.h"

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/stray_threads.h"
#include "engines/native/host_machine.h"
#include "ir/text.h"

namespace kpt::native {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::HostMachine;

constexpr const char* kCounting = R"(kpt_graph 1
buffer sum: float32[2] "sum"
input x: float32[2]
more: float32[2] = aten.add_.Tensor(self=%sum, other=%x)
twice: float32[2] = aten.mul.Tensor(self=%more, other=%more)
output %twice "twice"
)";

Tensor pair(float first, float second) {
  const float values[] = {first, second};
  return Tensor::from_bytes(DType::kFloat32, Dims{2}, std::as_bytes(std::span(values))).value();
}

// Counts; an object of a caller's stack.
struct Counter final : NodeObserver {
  void begin_node(std::size_t) override { ++begun; }
  void end_node(std::size_t) override { ++ended; }
  int begun = 0;
  int ended = 0;
};

class GuardedExecutableTest : public ::testing::Test {
 protected:
  void make(std::chrono::milliseconds longest_call) {
    calls_ = std::make_shared<DeviceCalls>("host:0", Vendor::kAmd, longest_call);
    auto graph = std::make_shared<const ir::Graph>(ir::read_graph(kCounting).value());
    auto loaded = GuardedExecutable::load(std::move(graph), {{"sum", pair(1, 2)}}, machine_, calls_);
    ASSERT_TRUE(loaded.ok()) << loaded.status().to_string();
    executable_ = std::move(loaded).value();
    state_ = executable_->make_state().value();
  }
  void TearDown() override { open(); }

  // Launches do not come back before open().
  void hang(const char* name = "launch") {
    machine_->before_launch = [name, opened = gate_.get_future().share()] {
      const auto call = name != nullptr ? std::make_unique<CallInProgress>(name) : nullptr;
      opened.wait();
    };
  }
  void open() {
    if (!machine_->before_launch) return;
    gate_.set_value();
    for (const auto end = std::chrono::steady_clock::now() + 60s; count_stray_threads() > 0;) {
      ASSERT_LT(std::chrono::steady_clock::now(), end);
      std::this_thread::sleep_for(1ms);
    }
    machine_->before_launch = nullptr;
    gate_ = {};
  }
  Status run(RunContext context = {}) {
    context.state = state_.get();
    return executable_->run(context, std::vector{pair(10, 20)}, outputs_, nullptr);
  }

  std::shared_ptr<HostMachine> machine_ = std::make_shared<HostMachine>(32);
  std::shared_ptr<DeviceCalls> calls_;
  std::unique_ptr<Executable> executable_;
  std::unique_ptr<State> state_;
  std::vector<Tensor> outputs_;
  std::promise<void> gate_;
};

TEST_F(GuardedExecutableTest, RunsBuildOnEachOtherAndUseTheirOutputsAgain) {
  make(60s);
  EXPECT_EQ(executable_->device(), "host:0");
  EXPECT_TRUE(executable_->is_stateful());
  EXPECT_EQ(executable_->plan().size(), 2U);
  EXPECT_THAT(state_->names(), ElementsAre("sum"));
  ASSERT_TRUE(run().ok());
  EXPECT_THAT(outputs_.at(0).elements<float>(), ElementsAre(121, 484));
  const void* const first = outputs_[0].data();
  ASSERT_TRUE(run().ok());
  EXPECT_THAT(outputs_.at(0).elements<float>(), ElementsAre(441, 1764));
  EXPECT_EQ(outputs_[0].data(), first);
  EXPECT_THAT(state_->read("sum").value().elements<float>(), ElementsAre(21, 42));
  ASSERT_TRUE(state_->write("sum", pair(0, 0)).ok());
  ASSERT_TRUE(run().ok());
  EXPECT_THAT(outputs_.at(0).elements<float>(), ElementsAre(100, 400));
  ASSERT_TRUE(state_->reset().ok());
  EXPECT_THAT(state_->read("sum").value().elements<float>(), ElementsAre(1, 2));
  RunContext without;
  EXPECT_EQ(executable_->run(without, std::vector{pair(1, 1)}, outputs_, nullptr).code(), StatusCode::kInvalidArgument);
}

TEST_F(GuardedExecutableTest, ACallThatLastsTooLongIsNamedAndChangesNothing) {
  make(200ms);
  hang();
  Status status = run();
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(status.vendor(), Vendor::kAmd);
  EXPECT_THAT(status.message(), HasSubstr("host:0 has not answered launch within 0.2 s"));
  EXPECT_TRUE(outputs_.empty());
  status = run();
  EXPECT_EQ(status.code(), StatusCode::kDeviceNotAvailable);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("host:0 does not answer: it has not come back from launch for"),
                                      HasSubstr("start the program again")));
  EXPECT_EQ(state_->reset().code(), StatusCode::kDeviceNotAvailable);
  open();
  EXPECT_THAT(state_->read("sum").value().elements<float>(), ElementsAre(1, 2));
  ASSERT_TRUE(run().ok());
  EXPECT_THAT(outputs_.at(0).elements<float>(), ElementsAre(121, 484));
}

TEST_F(GuardedExecutableTest, AnObserverHearsNothingOnceItsRunWasGivenUp) {
  make(200ms);
  hang();
  auto counter = std::make_unique<Counter>();
  RunContext context;
  context.observer = counter.get();
  EXPECT_EQ(run(context).code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(counter->begun, 1);
  EXPECT_EQ(counter->ended, 0);
  counter.reset();  // AddressSanitizer would see it
  open();
  counter = std::make_unique<Counter>();
  context.observer = counter.get();
  ASSERT_TRUE(run(context).ok());
  EXPECT_EQ(counter->ended, 2);
}

// Not a call of the machine's, which a deadline leaves no time to rest.
TEST_F(GuardedExecutableTest, ARunThatWasLeftKeepsTheBuffersUntilItIsBack) {
  make(60s);
  hang(nullptr);
  RunContext context;
  context.deadline = std::chrono::steady_clock::now() + 50ms;
  Status status = run(context);
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(status.message(), HasSubstr("the run passed its time limit"));
  context.deadline = std::chrono::steady_clock::now() + 50ms;
  EXPECT_EQ(run(context).code(), StatusCode::kDeadlineExceeded) << "it waits for the first";
  std::thread opener([this] {
    std::this_thread::sleep_for(50ms);
    gate_.set_value();
  });
  status = run();
  opener.join();
  ASSERT_TRUE(status.ok()) << status.to_string();
  EXPECT_THAT(outputs_.at(0).elements<float>(), ElementsAre(121, 484));
  machine_->before_launch = nullptr;
}

TEST_F(GuardedExecutableTest, ACancelledRunEndsByItself) {
  make(60s);
  machine_->hangs = true;  // streams are not ready, and no call hangs
  std::atomic<bool> cancelled{false};
  RunContext context;
  context.cancelled = &cancelled;
  std::thread canceller([&cancelled] {
    std::this_thread::sleep_for(50ms);
    cancelled = true;
  });
  EXPECT_EQ(run(context).code(), StatusCode::kCancelled);
  canceller.join();
  machine_->hangs = false;
  ASSERT_TRUE(run().ok());
  EXPECT_THAT(outputs_.at(0).elements<float>(), ElementsAre(121, 484));
}

}  // namespace
}  // namespace kpt::native
