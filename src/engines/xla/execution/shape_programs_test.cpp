#include "engines/xla/execution/shape_programs.h"

#include <atomic>
#include <thread>

#include <gtest/gtest.h>

namespace kpt {
namespace {

TEST(ShapePrograms, OneIsMadePerKeyAndTheOldestGoes) {
  ShapePrograms programs(2);
  int made = 0;
  const auto make = [&made]() -> Result<ShapePrograms::Program> {
    ++made;
    return std::make_shared<const ShapeProgram>();
  };
  const auto first = programs.get({1}, make).value();
  EXPECT_EQ(programs.get({1}, make).value(), first);
  EXPECT_EQ(made, 1);
  EXPECT_TRUE(programs.get({2}, make).ok());
  EXPECT_EQ(programs.get({1}, make).value(), first);  // now {2} is the oldest
  EXPECT_TRUE(programs.get({3}, make).ok());
  EXPECT_EQ(programs.count(), 2U);
  EXPECT_EQ(made, 3);
  EXPECT_EQ(programs.get({1}, make).value(), first);
  EXPECT_TRUE(programs.get({2}, make).ok());
  EXPECT_EQ(made, 4);
}

TEST(ShapePrograms, WhatGoesIsHandedOver) {
  std::vector<std::shared_ptr<const void>> gone;
  ShapePrograms programs(1, [&gone](std::shared_ptr<const void> things) { gone.push_back(std::move(things)); });
  const auto make = []() -> Result<ShapePrograms::Program> { return std::make_shared<const ShapeProgram>(); };
  const std::weak_ptr<const ShapeProgram> first = programs.get({1}, make).value();
  EXPECT_TRUE(programs.get({2}, make).ok());
  EXPECT_EQ(gone.size(), 1U);
  EXPECT_FALSE(first.expired());
  gone.clear();
  EXPECT_TRUE(first.expired());
}

TEST(ShapePrograms, AFailureIsNotKept) {
  ShapePrograms programs(2);
  const auto fail = []() -> Result<ShapePrograms::Program> { return Status(StatusCode::kCompilation, "no"); };
  EXPECT_EQ(programs.get({1}, fail).status().code(), StatusCode::kCompilation);
  EXPECT_EQ(programs.count(), 0U);
  EXPECT_TRUE(
      programs.get({1}, [] { return Result<ShapePrograms::Program>(std::make_shared<const ShapeProgram>()); }).ok());
  const auto throws = []() -> Result<ShapePrograms::Program> { throw std::bad_alloc(); };
  EXPECT_EQ(programs.get({2}, throws).status().code(), StatusCode::kOutOfMemory);
}

TEST(ShapePrograms, ThreadsThatNeedTheSameWaitForOne) {
  ShapePrograms programs(4);
  std::atomic<int> made{0};
  const auto make = [&made]() -> Result<ShapePrograms::Program> {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    ++made;
    return std::make_shared<const ShapeProgram>();
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] { EXPECT_TRUE(programs.get({7}, make).ok()); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(made, 1);
}

// Work that comes back when it is told to.
struct Gate {
  std::promise<void> open;
  std::shared_future<void> opened = open.get_future().share();
};

TEST(ShapePrograms, WhoMayNotWaitLeavesAndTheProgramIsMadeOnce) {
  using namespace std::chrono_literals;
  CallThreads threads;
  const auto programs = std::make_shared<ShapePrograms>(4);
  Gate gate;
  const auto made = std::make_shared<std::atomic<int>>(0);
  const auto make = [opened = gate.opened, made]() -> Result<ShapePrograms::Program> {
    opened.wait();
    ++*made;
    return std::make_shared<const ShapeProgram>();
  };
  const auto left = [](CallEnd end) {
    return Status(end == CallEnd::kLate ? StatusCode::kDeadlineExceeded : StatusCode::kCancelled, "left");
  };
  const std::atomic<bool> cancelled{true};
  const auto get = [&](const CallLimit& limit) {
    return ShapePrograms::get_within(programs, {7}, make, threads, limit, left);
  };
  EXPECT_EQ(get(CallLimit::from_now(50ms)).status().code(), StatusCode::kDeadlineExceeded);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(get(CallLimit::from_now(1ms)).status().code(), StatusCode::kDeadlineExceeded);
  }
  EXPECT_EQ(get({CallLimit::kNever, &cancelled}).status().code(), StatusCode::kCancelled);
  EXPECT_EQ(threads.given_up(), 1U) << "one thread compiles, whoever asks";
  std::thread opener([&gate] {
    std::this_thread::sleep_for(30ms);
    gate.open.set_value();
  });
  EXPECT_TRUE(get({CallLimit::kNever}).ok());
  opener.join();
  EXPECT_EQ(*made, 1);
  const auto fail = []() -> Result<ShapePrograms::Program> { return Status(StatusCode::kCompilation, "no"); };
  const auto failed = ShapePrograms::get_within(programs, {8}, fail, threads, CallLimit::from_now(60s), left);
  EXPECT_EQ(failed.status().code(), StatusCode::kCompilation);
  EXPECT_EQ(programs->count(), 1U);
}

}  // namespace
}  // namespace kpt
