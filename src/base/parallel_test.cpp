#include "base/parallel.h"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace kpt {
namespace {

TEST(Parallel, EveryItemIsWorkedOnOnce) {
  for (const std::size_t count : {0U, 1U, 7U, 64U, 1000U}) {
    for (const std::size_t stretch : {1U, 7U, 64U, 5000U}) {
      std::vector<int> seen(count);  // stretches are disjoint: no lock
      for_each_stretch(count, stretch, [&](std::size_t begin, std::size_t end) {
        ASSERT_LT(begin, end);
        ASSERT_LE(end - begin, stretch);
        for (std::size_t at = begin; at < end; ++at) ++seen[at];
      });
      EXPECT_EQ(seen, std::vector<int>(count, 1)) << count << " by " << stretch;
    }
  }
}

TEST(Parallel, OneThreadIsTheCallersOwn) {
  const char* const before = std::getenv("OMP_NUM_THREADS");  // NOLINT(concurrency-mt-unsafe): no thread runs here
  const std::string kept = before == nullptr ? "" : before;
  setenv("OMP_NUM_THREADS", "1", 1);  // NOLINT(concurrency-mt-unsafe)
  const auto caller = std::this_thread::get_id();
  std::atomic<int> elsewhere{0};
  for_each_stretch(64, 1, [&](std::size_t, std::size_t) {
    if (std::this_thread::get_id() != caller) ++elsewhere;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // another thread would have its turn
  });
  if (before == nullptr) {
    unsetenv("OMP_NUM_THREADS");  // NOLINT(concurrency-mt-unsafe)
  } else {
    setenv("OMP_NUM_THREADS", kept.c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
  }
  EXPECT_EQ(elsewhere, 0);
}

TEST(Parallel, WhatAStretchThrowsIsThrownAfterAllHaveEnded) {
  std::atomic<int> inside{0};
  const auto work = [&](std::size_t begin, std::size_t) {
    ++inside;
    const bool fails = begin == 40;
    --inside;
    if (fails) throw std::runtime_error("stretch 40");
  };
  EXPECT_THROW(for_each_stretch(100, 1, work), std::runtime_error);
  EXPECT_EQ(inside, 0);
}

}  // namespace
}  // namespace kpt
