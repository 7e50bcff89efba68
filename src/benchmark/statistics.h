// Figures of repeated measurements that a few slow samples cannot bend. Pure functions; all times share one unit.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace kpt {

// Both ends included.
struct Interval {
  double low = 0;
  double high = 0;
};

struct SampleSummary {
  std::size_t count = 0;
  double mean = 0;
  double stddev = 0;  // of the samples, divided by n - 1; 0 for one sample
  double least = 0;
  double most = 0;
  double median = 0;
  double mad = 0;  // median distance from the median
  double p90 = 0;
  double p99 = 0;
  Interval median_interval;  // 95 %, see median_interval()
  std::size_t outliers = 0;  // samples that is_outlier() names; they stay in every figure above
};

// The value below which a share `q` (0 to 1) of the samples lies, linear between neighbours. `sorted` ascends and is
// not empty.
double percentile(std::span<const double> sorted, double q);
double median_of(std::vector<double> samples);  // not empty
// The median distance of the samples from `center`.
double median_distance(std::span<const double> samples, double center);

// True when `sample` lies more than five robust deviations (1.4826 MAD) from the median. A MAD of 0 names nothing.
bool is_outlier(double sample, double median, double mad);

// The narrowest interval between order statistics, symmetric in rank, that holds the median of the distribution with at
// least `coverage`. Below six samples no such interval reaches 95 %: then it goes from the least to the most. `sorted`
// ascends and is not empty.
Interval order_interval(std::span<const double> sorted, double coverage = 0.95);

// 95 % interval of the median of samples in the order in which they were taken. Neighbours in time resemble each other
// (clock speed, other processes), which makes order_interval() too narrow; so from 60 samples on it is taken over the
// medians of 30 blocks of neighbours. It always holds the median of the samples. Not empty.
Interval median_interval(std::span<const double> in_time_order);

// How many leading samples still belong to the warm-up: the first place from which on a window of samples has a median
// within the noise (three robust deviations, at least 2 %) of that of the second half. At most half of them.
std::size_t find_steady_start(std::span<const double> in_time_order);

// Of samples in the order in which they were taken; not empty.
SampleSummary summarize(std::span<const double> in_time_order);

enum class Verdict { kBetter, kSame, kWorse };
std::string_view to_string(Verdict verdict);  // "better", "same", "worse"

// `after` against `before`, both times. Better or worse only when the intervals do not touch and the medians differ by
// more than `least_effect` (0.05: 5 %) of `before`.
struct TimeComparison {
  double ratio = 1;         // after / before of the medians: above 1 is slower
  Interval ratio_interval;  // from the two intervals
  Verdict verdict = Verdict::kSame;
};
TimeComparison compare_times(const SampleSummary& before, const SampleSummary& after, double least_effect);

}  // namespace kpt
