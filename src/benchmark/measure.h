// The measurement loop: warm-up, then samples until time or count says enough.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "benchmark/statistics.h"
#include "kpt/status.h"

namespace kpt {

struct MeasureOptions {
  std::chrono::duration<double> warmup{0.5};    // at least this long and at least once, before any sample counts
  std::chrono::duration<double> duration{2.0};  // of sampling
  std::size_t least_samples = 10;               // also when they take longer than `duration`
  std::size_t most_samples = 100000;
  // Nothing starts after it. Reached before the first sample it is a failure, later it ends the sampling.
  std::optional<std::chrono::steady_clock::time_point> deadline;
};

struct Measurement {
  std::vector<double> samples_ms;  // in time order, without what still belonged to the warm-up
  SampleSummary summary;           // of samples_ms
  std::size_t warmup_runs = 0;     // before sampling
  std::size_t unsteady = 0;        // first samples that were left out, see find_steady_start()
  double cpu_ms = 0;               // processor time of all threads per sampled run
  bool cut_short = false;          // the deadline came before `duration` or `least_samples`
};

// One measured thing. `prepare` runs before every run and is not timed; it may be empty. `run` must return when the
// work is done, not when it is queued.
struct MeasuredRun {
  std::function<Status()> prepare;
  std::function<Status()> run;
};

// Time as measure() sees it; tests give their own.
struct MeasureClock {
  std::function<std::chrono::steady_clock::time_point()> now;
  std::function<double()> cpu_seconds;  // of this process, all threads
  static MeasureClock real();
};

// Fails with what `run` or `prepare` fails with, or kDeadlineExceeded.
Result<Measurement> measure(const MeasuredRun& measured, const MeasureOptions& options,
                            const MeasureClock& clock = MeasureClock::real());

}  // namespace kpt
