#include "benchmark/statistics.h"

#include <algorithm>
#include <cmath>

namespace kpt {
namespace {

constexpr double kMadToDeviation = 1.4826;  // of a normal distribution
constexpr std::size_t kBlocks = 30;
constexpr double kLeastNoise = 0.02;  // of the median, when judging whether the warm-up is over

std::vector<double> sorted_copy(std::span<const double> samples) {
  std::vector<double> sorted(samples.begin(), samples.end());
  std::ranges::sort(sorted);
  return sorted;
}

}  // namespace

double percentile(std::span<const double> sorted, double q) {
  const double place = std::clamp(q, 0.0, 1.0) * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

double median_of(std::vector<double> samples) {
  std::ranges::sort(samples);
  return percentile(samples, 0.5);
}

double median_distance(std::span<const double> samples, double center) {
  std::vector<double> distances;
  distances.reserve(samples.size());
  for (const double sample : samples) distances.push_back(std::fabs(sample - center));
  return median_of(std::move(distances));
}

bool is_outlier(double sample, double median, double mad) {
  return mad > 0 && std::fabs(sample - median) > 5 * kMadToDeviation * mad;
}

Interval order_interval(std::span<const double> sorted, double coverage) {
  // The number of samples below the median is binomial (n, 1/2). `tail` is P(X <= rank) of it, and the interval from
  // sample `rank` to sample n - 1 - rank misses the median with 2 P(X <= rank). Logarithms, since 2^-n underflows.
  const std::size_t n = sorted.size();
  const auto count = static_cast<double>(n);
  double tail = 0;
  double log_term = -count * std::log(2.0);
  std::size_t rank = 0;
  for (std::size_t k = 0; 2 * k + 1 < n; ++k) {
    tail += std::exp(log_term);
    log_term += std::log((count - static_cast<double>(k)) / static_cast<double>(k + 1));  // the next binomial term
    if (1 - 2 * tail < coverage) break;
    rank = k;
  }
  return {sorted[rank], sorted[n - 1 - rank]};
}

Interval median_interval(std::span<const double> in_time_order) {
  const std::size_t n = in_time_order.size();
  std::vector<double> units;
  if (n < 2 * kBlocks) {
    units.assign(in_time_order.begin(), in_time_order.end());
  } else {
    for (std::size_t block = 0; block < kBlocks; ++block) {
      const std::size_t first = block * n / kBlocks;
      const std::size_t last = (block + 1) * n / kBlocks;
      units.push_back(median_of({in_time_order.begin() + static_cast<std::ptrdiff_t>(first),
                                 in_time_order.begin() + static_cast<std::ptrdiff_t>(last)}));
    }
  }
  std::ranges::sort(units);
  Interval interval = order_interval(units);
  const double median = median_of({in_time_order.begin(), in_time_order.end()});
  interval.low = std::min(interval.low, median);
  interval.high = std::max(interval.high, median);
  return interval;
}

std::size_t find_steady_start(std::span<const double> in_time_order) {
  const std::size_t n = in_time_order.size();
  constexpr std::size_t kWindow = 5;
  if (n < 4 * kWindow) return 0;
  const std::span<const double> second = in_time_order.subspan(n / 2);
  const double settled = median_of({second.begin(), second.end()});
  const double noise = std::max(3 * kMadToDeviation * median_distance(second, settled), kLeastNoise * settled);
  for (std::size_t start = 0; start < n / 2; ++start) {
    const auto window = in_time_order.subspan(start, kWindow);
    const bool first_fits = std::fabs(window[0] - settled) <= noise;
    if (first_fits && std::fabs(median_of({window.begin(), window.end()}) - settled) <= noise) return start;
  }
  return n / 2;
}

SampleSummary summarize(std::span<const double> in_time_order) {
  const std::vector<double> sorted = sorted_copy(in_time_order);
  SampleSummary summary;
  summary.count = sorted.size();
  const auto count = static_cast<double>(summary.count);
  for (const double sample : sorted) summary.mean += sample / count;
  double squares = 0;
  for (const double sample : sorted) squares += (sample - summary.mean) * (sample - summary.mean);
  summary.stddev = summary.count > 1 ? std::sqrt(squares / (count - 1)) : 0;
  summary.least = sorted.front();
  summary.most = sorted.back();
  summary.median = percentile(sorted, 0.5);
  summary.mad = median_distance(sorted, summary.median);
  summary.p90 = percentile(sorted, 0.9);
  summary.p99 = percentile(sorted, 0.99);
  summary.median_interval = median_interval(in_time_order);
  summary.outliers = static_cast<std::size_t>(
      std::ranges::count_if(sorted, [&](double sample) { return is_outlier(sample, summary.median, summary.mad); }));
  return summary;
}

std::string_view to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::kBetter: return "better";
    case Verdict::kSame: return "same";
    case Verdict::kWorse: return "worse";
  }
  return "";
}

TimeComparison compare_times(const SampleSummary& before, const SampleSummary& after, double least_effect) {
  TimeComparison result;
  result.ratio = after.median / before.median;
  result.ratio_interval = {after.median_interval.low / before.median_interval.high,
                           after.median_interval.high / before.median_interval.low};
  if (result.ratio_interval.low > 1 && result.ratio > 1 + least_effect) result.verdict = Verdict::kWorse;
  if (result.ratio_interval.high < 1 && result.ratio < 1 - least_effect) result.verdict = Verdict::kBetter;
  return result;
}

}  // namespace kpt
