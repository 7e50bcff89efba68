#include "benchmark/statistics.h"

#include <algorithm>
#include <cmath>
#include <random>

#include <gtest/gtest.h>

namespace kpt {
namespace {

// Fresh samples of an odd shape: a normal body, a slow tail, ties.
std::vector<double> draw(std::mt19937_64& random, std::size_t count) {
  std::normal_distribution<double> body(10, 1);
  std::exponential_distribution<double> tail(0.3);
  std::vector<double> samples(count);
  for (double& sample : samples) {
    sample = body(random) + (random() % 10 == 0 ? tail(random) : 0);
    if (random() % 4 == 0) sample = std::round(sample);
  }
  return samples;
}

TEST(Statistics, FiguresFollowTheirPlainDefinitions) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 200; ++round) {
    const std::vector<double> samples = draw(random, 1 + random() % 150);
    const SampleSummary summary = summarize(samples);
    std::vector<double> sorted = samples;
    std::ranges::sort(sorted);
    const std::size_t n = sorted.size();
    const double median = n % 2 == 1 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
    EXPECT_NEAR(summary.median, median, 1e-12);
    std::vector<double> distances;
    for (const double sample : samples) distances.push_back(std::fabs(sample - median));
    std::ranges::sort(distances);
    EXPECT_NEAR(summary.mad, n % 2 == 1 ? distances[n / 2] : (distances[n / 2 - 1] + distances[n / 2]) / 2, 1e-12);
    EXPECT_EQ(summary.least, sorted.front());
    EXPECT_EQ(summary.most, sorted.back());
    // At least 90 % of the samples lie at or below the next sample above p90, fewer below p90.
    const auto below = std::ranges::count_if(samples, [&](double sample) { return sample < summary.p90 - 1e-12; });
    EXPECT_LE(static_cast<double>(below), 0.9 * static_cast<double>(n - 1) + 1);
    const auto above = std::ranges::count_if(samples, [&](double sample) { return sample > summary.p90 + 1e-12; });
    EXPECT_LE(static_cast<double>(above), 0.1 * static_cast<double>(n - 1) + 1);
    EXPECT_LE(summary.median_interval.low, median);
    EXPECT_GE(summary.median_interval.high, median);
    EXPECT_LE(summary.p90, summary.p99);
    std::size_t outliers = 0;
    for (const double sample : samples) {
      outliers += summary.mad > 0 && std::fabs(sample - median) > 5 * 1.4826 * summary.mad ? 1 : 0;
    }
    EXPECT_EQ(summary.outliers, outliers);
  }
}

TEST(Statistics, OneSampleIsItsOwnSummary) {
  const std::vector<double> one = {3.5};
  const SampleSummary summary = summarize(one);
  EXPECT_EQ(summary.count, 1U);
  EXPECT_EQ(summary.median, 3.5);
  EXPECT_EQ(summary.p99, 3.5);
  EXPECT_EQ(summary.stddev, 0);
  EXPECT_EQ(summary.median_interval.low, 3.5);
  EXPECT_EQ(summary.median_interval.high, 3.5);
  EXPECT_EQ(find_steady_start(one), 0U);
}

// Ranks of the tables in textbooks (sign test): n = 6 → 1..6, 10 → 2..9, 20 → 6..15, 30 → 10..21, 100 → 40..61.
TEST(Statistics, IntervalOfTheMedianHasTheRanksOfTheSignTest) {
  const std::vector<std::pair<std::size_t, std::size_t>> table = {{1, 1},  {3, 1},  {5, 1},   {6, 1},
                                                                  {10, 2}, {20, 6}, {30, 10}, {100, 40}};
  for (const auto& [count, rank] : table) {
    SCOPED_TRACE(count);
    std::vector<double> sorted(count);
    for (std::size_t index = 0; index < count; ++index) sorted[index] = static_cast<double>(index + 1);
    const Interval interval = order_interval(sorted);
    EXPECT_EQ(interval.low, static_cast<double>(rank));
    EXPECT_EQ(interval.high, static_cast<double>(count + 1 - rank));
  }
  std::vector<double> many(100000, 0);
  for (std::size_t index = 0; index < many.size(); ++index) many[index] = static_cast<double>(index);
  EXPECT_NEAR(order_interval(many).low, 50000 - 1.96 * std::sqrt(100000.0) / 2, 3);
}

TEST(Statistics, IntervalHoldsTheTrueMedianAsOftenAsItSays) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  std::exponential_distribution<double> exponential(1);
  const double truth = std::log(2.0);
  for (const std::size_t count : {std::size_t{15}, std::size_t{300}}) {
    int held = 0;
    constexpr int kRounds = 1000;
    for (int round = 0; round < kRounds; ++round) {
      std::vector<double> samples(count);
      for (double& sample : samples) sample = exponential(random);
      const Interval interval = median_interval(samples);
      held += interval.low <= truth && truth <= interval.high ? 1 : 0;
    }
    EXPECT_GT(held, 920) << count;  // 95 %, four deviations below
  }
}

// Samples that drift together: an interval that takes them for independent would be far too sure.
TEST(Statistics, NeighboursThatResembleEachOtherWidenTheInterval) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  std::normal_distribution<double> noise(0, 1);
  std::vector<double> samples;
  double drift = 0;
  for (int index = 0; index < 3000; ++index) {
    drift = 0.98 * drift + noise(random);
    samples.push_back(100 + drift);
  }
  std::vector<double> sorted = samples;
  std::ranges::sort(sorted);
  const Interval blocks = median_interval(samples);
  const Interval plain = order_interval(sorted);
  EXPECT_GT(blocks.high - blocks.low, 2 * (plain.high - plain.low));
}

TEST(Statistics, WarmUpEndsWhereTheSamplesSettle) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  std::normal_distribution<double> noise(0, 0.05);
  for (int round = 0; round < 50; ++round) {
    const std::size_t slow = random() % 20;
    std::vector<double> samples;
    for (std::size_t index = 0; index < 200; ++index) samples.push_back((index < slow ? 20 : 10) + noise(random));
    EXPECT_NEAR(static_cast<double>(find_steady_start(samples)), static_cast<double>(slow), 1);
  }
  std::vector<double> growing;
  for (int index = 0; index < 100; ++index) growing.push_back(index);
  EXPECT_LE(find_steady_start(growing), 50U);
}

TEST(Statistics, VerdictNeedsBothSureAndLargeDifferences) {
  const auto summary = [](double median, double half) {
    SampleSummary made;
    made.median = median;
    made.median_interval = {median - half, median + half};
    return made;
  };
  EXPECT_EQ(compare_times(summary(10, 0.1), summary(12, 0.1), 0.05).verdict, Verdict::kWorse);
  EXPECT_EQ(compare_times(summary(12, 0.1), summary(10, 0.1), 0.05).verdict, Verdict::kBetter);
  EXPECT_EQ(compare_times(summary(10, 2), summary(12, 2), 0.05).verdict, Verdict::kSame);           // unsure
  EXPECT_EQ(compare_times(summary(10, 0.01), summary(10.3, 0.01), 0.05).verdict, Verdict::kSame);   // small
  EXPECT_EQ(compare_times(summary(10, 0.01), summary(10.3, 0.01), 0.01).verdict, Verdict::kWorse);  // asked for
  const TimeComparison result = compare_times(summary(10, 1), summary(20, 1), 0.05);
  EXPECT_DOUBLE_EQ(result.ratio, 2);
  EXPECT_DOUBLE_EQ(result.ratio_interval.low, 19.0 / 11);
  EXPECT_DOUBLE_EQ(result.ratio_interval.high, 21.0 / 9);
}

TEST(Statistics, SameDistributionIsRarelyCalledDifferent) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  int different = 0;
  for (int round = 0; round < 300; ++round) {
    const SampleSummary before = summarize(draw(random, 100));
    const SampleSummary after = summarize(draw(random, 100));
    different += compare_times(before, after, 0).verdict == Verdict::kSame ? 0 : 1;
  }
  EXPECT_LE(different, 15);
}

}  // namespace
}  // namespace kpt
