#include "benchmark/measure.h"

#include <random>

#include <gtest/gtest.h>

namespace kpt {
namespace {

using Time = std::chrono::steady_clock::time_point;

// A machine on which nothing but the runs takes time.
struct FakeMachine {
  Time now{};
  double cpu = 0;
  int prepared = 0;
  int runs = 0;
  void pass(double milliseconds) {
    now += std::chrono::duration_cast<Time::duration>(std::chrono::duration<double, std::milli>(milliseconds));
    cpu += 2e-3 * milliseconds;  // two threads
  }
  MeasureClock clock() {
    return {[this] { return now; }, [this] { return cpu; }};
  }
};

MeasureOptions options_of(double warmup_ms, double duration_ms, std::size_t least = 1) {
  MeasureOptions options;
  options.warmup = std::chrono::duration<double, std::milli>(warmup_ms);
  options.duration = std::chrono::duration<double, std::milli>(duration_ms);
  options.least_samples = least;
  return options;
}

TEST(Measure, WarmsUpThenSamplesForTheTimeAsked) {
  FakeMachine machine;
  const MeasuredRun run{[&] { return ++machine.prepared, machine.pass(50), Status(); },
                        [&] { return ++machine.runs, machine.pass(10), Status(); }};
  const auto result = measure(run, options_of(100, 600), machine.clock());
  ASSERT_TRUE(result.ok()) << result.status().to_string();
  EXPECT_EQ(result->warmup_runs, 2U);         // 60 ms each, with their preparation
  EXPECT_EQ(result->samples_ms.size(), 10U);  // 600 ms
  EXPECT_EQ(machine.runs, 12);
  EXPECT_EQ(machine.prepared, 12);
  EXPECT_DOUBLE_EQ(result->summary.median, 10);  // preparation is not timed
  EXPECT_NEAR(result->cpu_ms, 20, 1e-9);
  EXPECT_FALSE(result->cut_short);
}

TEST(Measure, CountsBoundTheSamples) {
  FakeMachine machine;
  const MeasuredRun run{{}, [&] { return machine.pass(10), Status(); }};
  MeasureOptions options = options_of(0, 0, 7);
  EXPECT_EQ(measure(run, options, machine.clock())->samples_ms.size(), 7U);
  options = options_of(0, 1e6);
  options.most_samples = 5;
  EXPECT_EQ(measure(run, options, machine.clock())->samples_ms.size(), 5U);
  EXPECT_EQ(measure(run, options, machine.clock())->warmup_runs, 1U);  // always one
}

TEST(Measure, SlowFirstSamplesAreLeftOutAndCounted) {
  FakeMachine machine;
  const MeasuredRun run{{}, [&] { return ++machine.runs, machine.pass(machine.runs < 9 ? 30 : 10), Status(); }};
  const auto result = measure(run, options_of(0, 0, 50), machine.clock());
  EXPECT_EQ(result->unsteady, 7U);  // one was the warm-up
  EXPECT_EQ(result->samples_ms.size(), 43U);
  EXPECT_EQ(result->summary.most, 10);
}

TEST(Measure, DeadlineEndsTheSamplingAndFailsWithoutASample) {
  FakeMachine machine;
  const MeasuredRun run{{}, [&] { return machine.pass(10), Status(); }};
  MeasureOptions options = options_of(20, 1000);
  options.deadline = machine.now + std::chrono::milliseconds(55);
  const auto result = measure(run, options, machine.clock());
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(result->cut_short);
  EXPECT_EQ(result->samples_ms.size(), 4U);  // 20 ms warm-up, then up to 60 ms: the last began at 50
  options.deadline = machine.now + std::chrono::milliseconds(5);
  EXPECT_EQ(measure(run, options, machine.clock()).status().code(), StatusCode::kDeadlineExceeded);
}

TEST(Measure, FailuresOfTheRunAreHandedOn) {
  FakeMachine machine;
  const MeasuredRun run{{}, [&] {
                          machine.pass(1);
                          return ++machine.runs < 4 ? Status() : Status(StatusCode::kOutOfMemory, "no memory is left");
                        }};
  const auto result = measure(run, options_of(0, 100), machine.clock());
  EXPECT_EQ(result.status().code(), StatusCode::kOutOfMemory);
}

}  // namespace
}  // namespace kpt
