#include "base/parallel.h"

#include <atomic>
#include <stdexcept>
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
