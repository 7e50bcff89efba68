// Runs that are waited for later, with a backend whose work a test holds back: one that computes while it is called,
// and one that queues.
#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <iterator>
#include <random>
#include <thread>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/text.h"
#include "runtime/loaded_model.h"
#include "test_backend.h"

namespace kpt {
namespace {

using execution_test::TestGate;
using execution_test::TestMemory;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kRows = R"(kpt_graph 1
symbol s0 in 1..100
parameter w: float32[3] "weight"
input x: float32[s0, 3]
product: float32[s0, 3] = aten.mul.Tensor(self=%x, other=%w)
sum: float32[s0, 3] = aten.add.Tensor(self=%product, other=%x)
output %sum "output"
)";

constexpr const char* kPositions = R"(kpt_graph 1
symbol s0 in 1..100
symbol s1 in 1..2000
parameter w: float32[3] "weight"
input x: float32[s0, s1, 3]
product: float32[s0, s1, 3] = aten.mul.Tensor(self=%x, other=%w)
sum: float32[s0, s1, 3] = aten.add.Tensor(self=%product, other=%x)
output %sum "output"
)";

// total = total + x, kept from run to run.
constexpr const char* kCounter = R"(kpt_graph 1
buffer total: float32[3] "weight"
input x: float32[3]
sum: float32[3] = aten.add.Tensor(self=%total, other=%x)
output %sum "output"
buffer_mutation %sum "weight"
)";

Tensor make_tensor(const Dims& dims, const std::function<float()>& next) {
  Tensor tensor = Tensor::empty(DType::kFloat32, dims).value();
  for (float& value : tensor.elements<float>()) value = next();
  return tensor;
}

Tensor count_up(const Dims& dims, float from = 1) {
  return make_tensor(dims, [from]() mutable { return from++; });
}

// A model on a test device.
struct Loaded {
  explicit Loaded(const char* text, const TestMemory& memory = {}, const detail::BatchPolicy& policy = {})
      : backend(execution_test::make_test_backend(memory)), device(*backend->devices().value()[0]) {
    ImportedModel imported;
    imported.graph = ir::read_graph(text).value();
    imported.weights.emplace("weight", make_tensor(Dims{3}, [value = 0.0F]() mutable { return value += 10; }));
    model = detail::LoadedModel::load(std::move(imported), *backend, device, nullptr, policy).value();
  }
  Session start() const { return detail::start_session(model).value(); }
  std::vector<float> values(const Tensor& tensor) const {
    const Tensor host = device.download(tensor).value();
    return {host.elements<float>().begin(), host.elements<float>().end()};
  }
  std::vector<float> run(Session& session, const Tensor& x) const {
    std::vector<Tensor> outputs;
    const Status status = session.run(std::span<const Tensor>(&x, 1), outputs);
    EXPECT_TRUE(status.ok()) << status.message();
    return values(outputs.at(0));
  }
  std::vector<float> take(Pending& pending) const {
    const auto outputs = pending.take_outputs();
    EXPECT_TRUE(outputs.ok()) << outputs.status().message();
    return values(outputs.value().at(0).tensor);
  }

  std::unique_ptr<Backend> backend;
  Device& device;
  std::shared_ptr<const detail::LoadedModel> model;
};

// Both kinds of devices: those that compute while they are called, and those that queue.
class PendingRuns : public ::testing::TestWithParam<bool> {
 protected:
  TestMemory memory() {
    TestMemory memory;
    memory.streams = GetParam();
    memory.gate = &gate_;
    return memory;
  }
  TestGate gate_;
};

INSTANTIATE_TEST_SUITE_P(Devices, PendingRuns, ::testing::Bool(),
                         [](const auto& kind) { return kind.param ? "Queueing" : "Computing"; });

TEST_P(PendingRuns, GiveWhatRunGives) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  const Loaded loaded(kRows, memory());
  Session session = loaded.start();
  std::vector<Tensor> inputs;
  std::vector<Pending> pending;
  for (std::int64_t rows = 1; rows <= 20; ++rows) {
    inputs.push_back(make_tensor(Dims{rows, 3}, [&] { return normal(random); }));
    pending.push_back(session.run_async({{"x", inputs.back()}}).value());
    EXPECT_FALSE(pending.back().done());
  }
  gate_.open();
  for (std::size_t index = 0; index < pending.size(); ++index) {
    auto outputs = pending[index].take_outputs().value();
    ASSERT_EQ(outputs.size(), 1U);
    EXPECT_EQ(outputs[0].name, "output");
    EXPECT_EQ(outputs[0].tensor.dims(), inputs[index].dims());
    EXPECT_EQ(loaded.values(outputs[0].tensor), loaded.run(session, inputs[index])) << index;
    EXPECT_TRUE(pending[index].done());
    EXPECT_TRUE(pending[index].wait().ok());
  }
}

TEST_P(PendingRuns, OfOneModelKeepTheirOrder) {
  std::vector<std::int64_t> tried;
  TestMemory held = memory();
  held.tried = &tried;
  const Loaded loaded(kRows, held);
  Session one = loaded.start();
  Session other = loaded.start();
  std::vector<Pending> pending;
  std::vector<std::int64_t> begun;
  for (std::int64_t rows = 30; rows > 0; --rows) {
    const Tensor x = count_up(Dims{rows, 3});
    pending.push_back((rows % 3 == 0 ? one : other).run_async({{"x", x}}).value());
    begun.push_back(rows);
  }
  gate_.open();
  EXPECT_TRUE(pending.back().wait().ok());
  for (const Pending& run : pending) EXPECT_TRUE(run.done()) << "the last is over, so all are";
  EXPECT_EQ(tried, begun);
}

TEST_P(PendingRuns, OneAtATimeUsesTheBuffersOfASession) {
  const Loaded loaded(kCounter, memory());
  Session one = loaded.start();
  Session other = loaded.start();
  const Tensor x = count_up(Dims{3});
  Pending first = one.run_async({{"x", x}}).value();
  const auto second = one.run_async({{"x", x}});
  EXPECT_EQ(second.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(second.status().message(), HasSubstr("buffers are in use by a run that is not over"));
  Pending beside = other.run_async({{"x", x}}).value();
  gate_.open();
  EXPECT_THAT(loaded.take(first), ElementsAre(11, 22, 33));
  EXPECT_THAT(loaded.take(beside), ElementsAre(11, 22, 33));
  Pending third = one.run_async({{"x", x}}).value();
  EXPECT_THAT(loaded.take(third), ElementsAre(12, 24, 36)) << "the refused run wrote nothing";
}

TEST_P(PendingRuns, RunAndResetWaitForTheRunInFlight) {
  const Loaded loaded(kCounter, memory());
  Session session = loaded.start();
  const Tensor x = count_up(Dims{3});
  Pending first = session.run_async({{"x", x}}).value();
  std::atomic<bool> returned = false;
  std::vector<float> second;
  std::thread thread([&] {
    Session same = session;
    second = loaded.run(same, x);
    returned = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(returned);
  gate_.open();
  thread.join();
  EXPECT_THAT(second, ElementsAre(12, 24, 36));
  EXPECT_THAT(loaded.take(first), ElementsAre(11, 22, 33));
  Pending third = session.run_async({{"x", x}}).value();
  ASSERT_TRUE(session.reset().ok());
  EXPECT_TRUE(third.done());
  EXPECT_THAT(loaded.run(session, x), ElementsAre(11, 22, 33));
}

TEST_P(PendingRuns, FailuresOfTheCallComeAtOnceAndThoseOfTheRunLater) {
  TestMemory held = memory();
  held.rows = 4;
  const Loaded loaded(kRows, held);
  Session session = loaded.start();
  EXPECT_THAT(session.run_async({{"y", count_up(Dims{2, 3})}}).status().message(), HasSubstr("no input 'y'"));
  EXPECT_EQ(session.run_async({{"x", count_up(Dims{2, 4})}}).status().code(), StatusCode::kInvalidArgument);
  Pending large = session.run_async({{"x", count_up(Dims{5, 3})}}).value();
  Pending fits = session.run_async({{"x", count_up(Dims{1, 3})}}).value();
  gate_.open();
  EXPECT_EQ(large.wait().code(), StatusCode::kOutOfMemory);
  EXPECT_EQ(large.wait().code(), StatusCode::kOutOfMemory) << "asked again";
  EXPECT_EQ(large.take_outputs().status().code(), StatusCode::kOutOfMemory);
  EXPECT_THAT(loaded.take(fits), ElementsAre(11, 42, 93)) << "the one behind it is fine";
  EXPECT_EQ(fits.take_outputs().status().code(), StatusCode::kInvalidArgument) << "outputs are given once";
}

TEST_P(PendingRuns, WhoseDeadlineIsPastOrThatAreCancelledDoNotBegin) {
  const Loaded loaded(kCounter, memory());
  Session session = loaded.start();
  gate_.open();
  const Tensor x = count_up(Dims{3});
  RunOptions late;
  late.deadline = std::chrono::steady_clock::now() - std::chrono::milliseconds(1);
  EXPECT_EQ(session.run_async({{"x", x}}, late).value().wait().code(), StatusCode::kDeadlineExceeded);
  const std::atomic<bool> cancelled = true;
  RunOptions stopped;
  stopped.cancelled = &cancelled;
  EXPECT_EQ(session.run_async({{"x", x}}, stopped).value().wait().code(), StatusCode::kCancelled);
  EXPECT_THAT(loaded.run(session, x), ElementsAre(11, 22, 33)) << "neither began";
}

TEST_P(PendingRuns, AHandleThatGoesWaitsForItsRun) {
  std::atomic<bool> let_go = false;
  std::atomic<bool> ended = false;
  std::vector<float> memory_of_user = {1, 2, 3};
  const Loaded loaded(kCounter, memory());
  Session session = loaded.start();
  std::thread thread([&] {
    {
      const auto pending = session.run_async(
          {{"x",
            Tensor::from_memory(DType::kFloat32, Dims{3}, memory_of_user.data(), 12, [&] { let_go = true; }).value()}});
      EXPECT_TRUE(pending.ok());
    }
    EXPECT_TRUE(let_go) << "the run is over, so its inputs are free";
    ended = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(ended);
  EXPECT_FALSE(let_go);
  gate_.open();
  thread.join();
  EXPECT_THAT(loaded.run(session, count_up(Dims{3})), ElementsAre(12, 24, 36)) << "the run took place";
}

TEST_P(PendingRuns, MovedHandlesKeepTheirRunAndTheModelStaysForIt) {
  auto loaded = std::make_unique<Loaded>(kRows, memory());
  Device& device = loaded->device;
  const std::unique_ptr<Backend> backend = std::move(loaded->backend);
  Pending outer;
  EXPECT_TRUE(outer.done());
  EXPECT_TRUE(outer.wait().ok());
  EXPECT_EQ(outer.take_outputs().status().code(), StatusCode::kInvalidArgument);
  {
    Session session = loaded->start();
    Pending first = session.run_async({{"x", count_up(Dims{1, 3})}}).value();
    outer = std::move(first);
    EXPECT_TRUE(first.done());  // NOLINT(bugprone-use-after-move): what it says of itself
  }
  loaded.reset();  // session and model are gone but for the run
  EXPECT_FALSE(outer.done());
  gate_.open();
  const Tensor host = device.download(outer.take_outputs().value()[0].tensor).value();
  EXPECT_EQ(host.elements<float>()[2], 93);
  outer = Pending();
}

TEST_P(PendingRuns, PaddedRunsGiveTheirOwnRowsAndPositions) {
  TestMemory held = memory();
  held.sizes_cost = true;
  const Loaded padded(kPositions, held, {false, true, true});
  const Loaded plain(kPositions);
  Session session = padded.start();
  Session other = plain.start();
  std::vector<Tensor> inputs;
  std::vector<Pending> pending;
  std::vector<RunReport> reports(6);
  for (std::int64_t size = 5; size < 11; ++size) {
    inputs.push_back(count_up(Dims{size, size + 2, 3}));
    RunOptions options;
    options.report = &reports[static_cast<std::size_t>(size - 5)];
    pending.push_back(session.run_async(std::span<const Tensor>(&inputs.back(), 1), options).value());
  }
  gate_.open();
  for (std::size_t index = 0; index < pending.size(); ++index) {
    const auto outputs = pending[index].take_outputs().value();
    EXPECT_EQ(outputs[0].tensor.dims(), inputs[index].dims());
    EXPECT_EQ(padded.values(outputs[0].tensor), plain.run(other, inputs[index])) << index;
  }
  EXPECT_EQ(reports[0].padded_rows, 1);
  EXPECT_EQ(reports[0].padded_positions, 1);
}

TEST_P(PendingRuns, RunsThatDoNotFitAreDoneInParts) {
  std::vector<std::int64_t> tried;
  TestMemory held = memory();
  held.rows = 2;
  held.tried = &tried;
  const Loaded split(kRows, held, {true, false});
  Session session = split.start();
  gate_.open();
  Pending pending = session.run_async({{"x", count_up(Dims{5, 3})}}).value();
  const std::vector<float> values = split.take(pending);
  EXPECT_EQ(values.size(), 15U);
  EXPECT_EQ(values[14], 15 * 31);
  EXPECT_THAT(tried, ElementsAre(5, 3, 2, 2, 1));
}

TEST_P(PendingRuns, ManyThreadsBeginWaitAndDrop) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  gate_.open();
  const Loaded loaded(kRows, memory());
  const Loaded counter(kCounter, memory());
  Session shared = loaded.start();
  Session counted = counter.start();
  std::atomic<int> wrong = 0;
  std::atomic<int> written = 0;
  std::vector<std::thread> threads;
  for (unsigned thread = 0; thread < 8; ++thread) {
    threads.emplace_back([&, thread] {
      std::mt19937 random(seed + thread);
      Session session = shared;
      std::vector<std::pair<float, Pending>> pending;
      for (int round = 0; round < 100; ++round) {
        const auto from = static_cast<float>(random() % 1000);
        pending.emplace_back(from, session.run_async({{"x", count_up(Dims{2, 3}, from)}}).value());
        if (random() % 4 == 0) pending.pop_back();  // nobody waits for it
        if (random() % 4 == 0 && counted.run_async({{"x", count_up(Dims{3})}}).ok()) ++written;
        if (random() % 8 == 0) {
          counter.run(counted, count_up(Dims{3}));
          ++written;
        }
      }
      for (auto& [from, run] : pending) {
        const std::vector<float> values = loaded.take(run);
        if (values.size() != 6 || values[5] != (from + 5) * 31) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  const auto times = static_cast<float>(written + 1);
  EXPECT_THAT(counter.run(counted, count_up(Dims{3})), ElementsAre(10 + times, 20 + 2 * times, 30 + 3 * times))
      << "every run that was taken wrote once";
}

TEST_P(PendingRuns, SeveralThreadsMayWaitForOneRun) {
  const Loaded loaded(kRows, memory());
  Session session = loaded.start();
  const Pending pending = session.run_async({{"x", count_up(Dims{2, 3})}}).value();
  std::atomic<int> fine = 0;
  std::vector<std::thread> threads;
  for (int index = 0; index < 4; ++index) {
    threads.emplace_back([&] {
      while (!pending.done()) std::this_thread::yield();
      if (pending.wait().ok()) ++fine;
    });
    threads.emplace_back([&] {
      if (pending.wait().ok() && pending.done()) ++fine;
    });
  }
  gate_.open();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(fine, 8);
}

TEST(QueueingDevice, AFailureInItsQueueIsToldByTheRun) {
  TestMemory memory;
  memory.streams = true;
  memory.fails_in_queue = true;
  memory.sizes_cost = true;
  for (const bool padded : {false, true}) {
    const Loaded loaded(kRows, memory, {false, padded});
    Session session = loaded.start();
    Pending pending = session.run_async({{"x", count_up(Dims{5, 3})}}).value();
    EXPECT_EQ(pending.take_outputs().status().code(), StatusCode::kDevice);
    EXPECT_EQ(pending.wait().code(), StatusCode::kDevice);
  }
}

// On a device that queues no run waits here: it has them all.
TEST(ComputingDevice, DeadlinesAndCancellationHoldForRunsThatWait) {
  TestGate gate;
  std::vector<std::int64_t> tried;
  TestMemory memory;
  memory.gate = &gate;
  memory.tried = &tried;
  const Loaded loaded(kRows, memory);
  Session session = loaded.start();
  Pending blocker = session.run_async({{"x", count_up(Dims{1, 3})}}).value();
  RunOptions late;
  late.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
  Pending too_late = session.run_async({{"x", count_up(Dims{2, 3})}}, late).value();
  std::atomic<bool> cancelled = false;
  RunOptions stopped;
  stopped.cancelled = &cancelled;
  Pending unwanted = session.run_async({{"x", count_up(Dims{3, 3})}}, stopped).value();
  Pending behind = session.run_async({{"x", count_up(Dims{4, 3})}}).value();
  std::this_thread::sleep_until(*late.deadline);
  cancelled = true;
  gate.open();
  EXPECT_TRUE(blocker.wait().ok());
  EXPECT_EQ(too_late.wait().code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(unwanted.wait().code(), StatusCode::kCancelled);
  EXPECT_TRUE(behind.wait().ok());
  EXPECT_THAT(tried, ElementsAre(1, 4)) << "those two never began";
}

TEST(ComputingDevice, AModelHasNoThreadBeforeARunNeedsOne) {
  const Loaded loaded(kRows);
  Session session = loaded.start();
  // Until it stays: the system may still list a thread that ended a moment ago.
  const auto count = [] {
    constexpr int kEqual = 5;
    std::ptrdiff_t last = 0;
    for (int equal = 0; equal < kEqual;) {
      const auto tasks = std::filesystem::directory_iterator("/proc/self/task");
      const std::ptrdiff_t found = std::distance(tasks, std::filesystem::directory_iterator());
      equal = found == last ? equal + 1 : 0;
      last = found;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return last;
  };
  const auto before = count();
  loaded.run(session, count_up(Dims{1, 3}));
  EXPECT_EQ(count(), before);
  EXPECT_TRUE(session.run_async({{"x", count_up(Dims{1, 3})}}).value().wait().ok());
  const auto with = count();
  EXPECT_GT(with, before);  // a sanitizer starts one of its own beside
  EXPECT_TRUE(session.run_async({{"x", count_up(Dims{1, 3})}}).value().wait().ok());
  EXPECT_EQ(count(), with);
}

}  // namespace
}  // namespace kpt
