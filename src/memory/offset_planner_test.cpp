#include "memory/offset_planner.h"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

namespace kpt {
namespace {

std::size_t most_alive(const std::vector<Lifetime>& lifetimes, std::size_t alignment) {
  std::size_t most = 0;
  for (const Lifetime& at : lifetimes) {
    std::size_t sum = 0;
    for (const Lifetime& other : lifetimes) {
      if (other.first <= at.first && at.first <= other.last) {
        sum += (other.bytes + alignment - 1) / alignment * alignment;
      }
    }
    most = std::max(most, sum);
  }
  return most;
}

void expect_sound(const std::vector<Lifetime>& lifetimes, const ArenaPlan& plan, std::size_t alignment) {
  ASSERT_EQ(plan.offsets.size(), lifetimes.size());
  for (std::size_t a = 0; a < lifetimes.size(); ++a) {
    EXPECT_EQ(plan.offsets[a] % alignment, 0U);
    EXPECT_LE(plan.offsets[a] + lifetimes[a].bytes, plan.arena_bytes);
    for (std::size_t b = 0; b < a; ++b) {
      const bool same_time = lifetimes[a].first <= lifetimes[b].last && lifetimes[b].first <= lifetimes[a].last;
      const bool same_place = plan.offsets[a] < plan.offsets[b] + lifetimes[b].bytes &&
                              plan.offsets[b] < plan.offsets[a] + lifetimes[a].bytes;
      EXPECT_FALSE(same_time && same_place && lifetimes[a].bytes > 0 && lifetimes[b].bytes > 0)
          << "blocks " << a << " and " << b << " are alive together and overlap";
    }
  }
}

TEST(OffsetPlanner, NothingNeedsNothing) {
  const ArenaPlan plan = plan_offsets({});
  EXPECT_EQ(plan.arena_bytes, 0U);
  EXPECT_TRUE(plan.offsets.empty());
}

TEST(OffsetPlanner, BlocksThatFollowOneAnotherShareTheirPlace) {
  const std::vector<Lifetime> lifetimes = {{100, 0, 1}, {100, 2, 3}, {100, 4, 5}};
  const ArenaPlan plan = plan_offsets(lifetimes, 64);
  EXPECT_EQ(plan.arena_bytes, 128U);
}

TEST(OffsetPlanner, TouchingLifetimesDoNotShare) {
  const std::vector<Lifetime> lifetimes = {{64, 0, 1}, {64, 1, 2}};
  EXPECT_EQ(plan_offsets(lifetimes, 64).arena_bytes, 128U);
}

TEST(OffsetPlanner, RandomPlansAreSoundAndNearTheLowerBound) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  std::size_t arenas = 0;
  std::size_t bounds = 0;
  for (int round = 0; round < 60; ++round) {
    std::vector<Lifetime> lifetimes(random() % 80);
    for (Lifetime& lifetime : lifetimes) {
      lifetime.bytes = random() % 5 == 0 ? 0 : random() % 10000;
      lifetime.first = static_cast<std::uint32_t>(random() % 100);
      lifetime.last = lifetime.first + static_cast<std::uint32_t>(random() % 8);
    }
    const std::size_t alignment = std::size_t{1} << (random() % 8);
    const ArenaPlan plan = plan_offsets(lifetimes, alignment);
    expect_sound(lifetimes, plan, alignment);
    arenas += plan.arena_bytes;
    bounds += most_alive(lifetimes, alignment);
  }
  EXPECT_LE(static_cast<double>(arenas), 1.2 * static_cast<double>(bounds));
}

}  // namespace
}  // namespace kpt
