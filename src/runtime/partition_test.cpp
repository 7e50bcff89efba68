#include "runtime/partition.h"

#include <algorithm>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kpt {
namespace {

using ::testing::ElementsAre;

using Needs = std::vector<std::vector<std::size_t>>;

constexpr Side kD = Side::kDevice;
constexpr Side kH = Side::kHost;
constexpr Side kN = Side::kNowhere;

std::vector<std::vector<std::size_t>> nodes_of(const std::vector<Part>& parts) {
  std::vector<std::vector<std::size_t>> nodes;
  for (const Part& part : parts) nodes.push_back(part.nodes);
  return nodes;
}

TEST(Partition, AChainIsCutWhereTheSideChanges) {
  const auto parts = make_parts({{}, {0}, {1}, {2}, {3}}, {kD, kD, kH, kD, kD});
  EXPECT_THAT(nodes_of(parts), ElementsAre(ElementsAre(0, 1), ElementsAre(2), ElementsAre(3, 4)));
  EXPECT_EQ(parts[0].side, kD);
  EXPECT_EQ(parts[1].side, kH);
}

TEST(Partition, BranchesShareTheirParts) {
  // Two chains device, host, device beside each other, in an order that changes sides six times.
  const auto parts = make_parts({{}, {0}, {1}, {}, {3}, {4}}, {kD, kH, kD, kD, kH, kD});
  EXPECT_THAT(nodes_of(parts), ElementsAre(ElementsAre(0, 3), ElementsAre(1, 4), ElementsAre(2, 5)));
}

TEST(Partition, WhatTheHostCanDoFirstIsDoneFirst) {
  // The device waits for the host at its end only.
  EXPECT_THAT(nodes_of(make_parts({{}, {}, {0, 1}}, {kD, kH, kD})), ElementsAre(ElementsAre(1), ElementsAre(0, 2)));
  // And the other way round.
  EXPECT_THAT(nodes_of(make_parts({{}, {}, {0, 1}}, {kH, kD, kH})), ElementsAre(ElementsAre(1), ElementsAre(0, 2)));
}

TEST(Partition, OneSideAloneIsOnePart) {
  EXPECT_THAT(nodes_of(make_parts({{}, {0}}, {kH, kH})), ElementsAre(ElementsAre(0, 1)));
  EXPECT_TRUE(make_parts({}, {}).empty());
}

TEST(Partition, NobodyWaitsForNodesThatNobodyRuns) {
  EXPECT_THAT(nodes_of(make_parts({{}, {0}, {1}}, {kH, kN, kD})), ElementsAre(ElementsAre(2), ElementsAre(0)));
}

struct RandomNodes {
  Needs needs;
  std::vector<Side> sides;
};

RandomNodes draw_nodes(std::mt19937_64& random, std::size_t count) {
  RandomNodes drawn;
  const std::size_t density = random() % 4 + 1;
  for (std::size_t node = 0; node < count; ++node) {
    const std::size_t kind = random() % 10;
    drawn.sides.push_back(kind == 0 ? kN : kind < 4 ? kH : kD);
    std::vector<std::size_t> needed;
    for (std::size_t edge = 0; node > 0 && edge < random() % (density + 1); ++edge) needed.push_back(random() % node);
    drawn.needs.push_back(std::move(needed));
  }
  return drawn;
}

TEST(Partition, EveryNodeRunsOnceOnItsSideAfterWhatItNeeds) {
  const std::uint64_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 500; ++round) {
    const RandomNodes drawn = draw_nodes(random, random() % 60);
    const auto parts = make_parts(drawn.needs, drawn.sides);
    std::vector<int> seen(drawn.sides.size(), 0);
    std::vector<bool> done(drawn.sides.size(), false);
    for (std::size_t node = 0; node < done.size(); ++node) done[node] = drawn.sides[node] == kN;
    for (std::size_t index = 0; index < parts.size(); ++index) {
      ASSERT_FALSE(parts[index].nodes.empty());
      ASSERT_TRUE(index == 0 || parts[index].side != parts[index - 1].side);
      for (const std::size_t node : parts[index].nodes) {
        ASSERT_EQ(drawn.sides[node], parts[index].side);
        for (const std::size_t needed : drawn.needs[node]) ASSERT_TRUE(done[needed]) << node << " needs " << needed;
        done[node] = true;
        ++seen[node];
      }
    }
    for (std::size_t node = 0; node < seen.size(); ++node) ASSERT_EQ(seen[node], drawn.sides[node] == kN ? 0 : 1);
  }
}

// The least number of parts over all orders in which the nodes can run.
std::size_t find_least(const RandomNodes& drawn, std::vector<bool>& done, std::size_t left, Side last) {
  if (left == 0) return 0;
  std::size_t least = drawn.sides.size() + 1;
  for (std::size_t node = 0; node < done.size(); ++node) {
    const auto& needs = drawn.needs[node];
    if (done[node] || !std::all_of(needs.begin(), needs.end(), [&](std::size_t other) { return done[other]; }))
      continue;
    done[node] = true;
    const std::size_t more = drawn.sides[node] == last ? 0 : 1;
    least = std::min(least, more + find_least(drawn, done, left - 1, drawn.sides[node]));
    done[node] = false;
  }
  return least;
}

TEST(Partition, NoOrderHasFewerParts) {
  const std::uint64_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 200; ++round) {
    const RandomNodes drawn = draw_nodes(random, random() % 7 + 1);
    std::vector<bool> done;
    for (const Side side : drawn.sides) done.push_back(side == kN);
    const auto left = static_cast<std::size_t>(std::count(done.begin(), done.end(), false));
    EXPECT_EQ(make_parts(drawn.needs, drawn.sides).size(), find_least(drawn, done, left, kN));
  }
}

}  // namespace
}  // namespace kpt
