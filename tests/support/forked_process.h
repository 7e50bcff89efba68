// A part of a test in a process of its own, so that it can be killed, lose its rights or fill its own disk.
#pragma once

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <random>
#include <thread>

#include <gtest/gtest.h>

namespace kpt::testing {

// Runs `body` in a process of its own and returns its number. Exit code 1 means that an expectation failed there.
template <typename Body>
pid_t start_process(const Body& body) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    body();
    ::_exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  EXPECT_GT(pid, 0);
  return pid;
}

// The exit code, or 128 and the number of the signal that ended it.
inline int wait_for_process(pid_t pid) {
  int status = 0;
  EXPECT_EQ(::waitpid(pid, &status, 0), pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// Repeats `step(i)` in a process of its own, and kills that process at a random moment of a random one of its first
// steps. The moment is a share of the time that this process's own step before it took, so that a slow disk or a busy
// machine does not move it out of the step.
template <typename Step>
void kill_in_a_step(std::mt19937& random, Step step) {
  using Clock = std::chrono::steady_clock;
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  const pid_t pid = start_process([&] {
    for (std::size_t i = 0;; ++i) {
      if (!step(i) || ::write(ends[1], "+", 1) != 1) ::_exit(1);
    }
  });
  ::close(ends[1]);
  Clock::time_point begin = Clock::now();
  Clock::duration last{};
  for (auto whole = 1 + random() % 3; whole > 0; --whole) {
    char done = 0;
    pollfd waiting{ends[0], POLLIN, 0};
    EXPECT_EQ(::poll(&waiting, 1, 60000), 1) << "a step takes more than a minute";
    EXPECT_TRUE(waiting.revents == 0 || ::read(ends[0], &done, 1) == 1) << "a step failed";
    last = Clock::now() - begin;
    begin = Clock::now();
  }
  std::this_thread::sleep_for(last * (random() % 1000) / 1000);
  ::kill(pid, SIGKILL);
  EXPECT_EQ(wait_for_process(pid), 128 + SIGKILL);
  ::close(ends[0]);
}

}  // namespace kpt::testing
