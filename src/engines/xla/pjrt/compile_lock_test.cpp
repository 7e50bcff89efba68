#include "engines/xla/pjrt/compile_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "support/hardware_fixture.h"

namespace kpt::pjrt {
namespace {

using namespace std::chrono_literals;

std::chrono::steady_clock::time_point in(std::chrono::milliseconds time) {
  return std::chrono::steady_clock::now() + time;
}

TEST(CompileLock, LeavesNothingBehind) {
  const kpt::testing::TemporaryFolder folder;
  const auto path = folder.path() / "lock";
  {
    const auto lock = CompileLock::take(path, in(1s));
    ASSERT_TRUE(lock.ok()) << lock.status().message();
    EXPECT_TRUE(std::filesystem::exists(path));
    EXPECT_EQ(CompileLock::take(path, in(50ms)).status().code(), StatusCode::kCompilationTimeout);
    EXPECT_TRUE(std::filesystem::exists(path));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
  std::filesystem::create_directory(path);
  EXPECT_FALSE(CompileLock::take(path, in(50ms)).ok());
}

TEST(CompileLock, WhatAKilledProcessLeftIsTakenOver) {
  const kpt::testing::TemporaryFolder folder;
  const auto path = folder.path() / "lock";
  ::close(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  EXPECT_TRUE(CompileLock::take(path, in(1s)).ok());
  EXPECT_FALSE(std::filesystem::exists(path));
}

// The file that is locked must be the one that has the name: the lock of a removed one keeps nobody out.
TEST(CompileLock, ManyTakeTurns) {
  const kpt::testing::TemporaryFolder folder;
  std::atomic<int> inside = 0;
  std::atomic<int> turns = 0;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 6; ++thread) {
    threads.emplace_back([&] {
      for (int turn = 0; turn < 20; ++turn) {
        const auto lock = CompileLock::take(folder.path() / "lock", in(60s));
        ASSERT_TRUE(lock.ok()) << lock.status().message();
        EXPECT_EQ(inside.fetch_add(1), 0);
        std::this_thread::sleep_for(1ms);
        inside.fetch_sub(1);
        turns.fetch_add(1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(turns.load(), 120);
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "lock"));
}

}  // namespace
}  // namespace kpt::pjrt
