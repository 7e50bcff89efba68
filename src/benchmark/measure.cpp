#include "benchmark/measure.h"

#include <algorithm>
#include <ctime>

namespace kpt {
namespace {

using TimePoint = std::chrono::steady_clock::time_point;

double read_cpu_seconds() {
  timespec now{};
  if (::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now) != 0) return 0;
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

class Loop {
 public:
  Loop(const MeasuredRun& measured, const MeasureOptions& options, const MeasureClock& clock)
      : measured_(measured), options_(options), clock_(clock) {}

  bool past_deadline() const { return options_.deadline && clock_.now() >= *options_.deadline; }

  // Milliseconds of one run.
  Result<double> time_once() {
    if (measured_.prepare) KPT_RETURN_IF_ERROR(measured_.prepare());
    const double cpu_before = clock_.cpu_seconds();
    const TimePoint start = clock_.now();
    KPT_RETURN_IF_ERROR(measured_.run());
    const TimePoint end = clock_.now();
    cpu_seconds_ = clock_.cpu_seconds() - cpu_before;
    return std::chrono::duration<double, std::milli>(end - start).count();
  }
  double last_cpu_seconds() const { return cpu_seconds_; }

 private:
  const MeasuredRun& measured_;
  const MeasureOptions& options_;
  const MeasureClock& clock_;
  double cpu_seconds_ = 0;
};

void keep_steady_part(Measurement& result, std::vector<double> cpu_seconds) {
  result.unsteady = find_steady_start(result.samples_ms);
  const auto leading = static_cast<std::ptrdiff_t>(result.unsteady);
  result.samples_ms.erase(result.samples_ms.begin(), result.samples_ms.begin() + leading);
  cpu_seconds.erase(cpu_seconds.begin(), cpu_seconds.begin() + leading);
  for (const double seconds : cpu_seconds) result.cpu_ms += 1e3 * seconds / static_cast<double>(cpu_seconds.size());
  result.summary = summarize(result.samples_ms);
}

}  // namespace

MeasureClock MeasureClock::real() {
  return {[] { return std::chrono::steady_clock::now(); }, read_cpu_seconds};
}

Result<Measurement> measure(const MeasuredRun& measured, const MeasureOptions& options, const MeasureClock& clock) {
  Loop loop(measured, options, clock);
  Measurement result;
  const TimePoint start = clock.now();
  do {
    if (loop.past_deadline()) return Status(StatusCode::kDeadlineExceeded, "the time limit passed during the warm-up");
    KPT_RETURN_IF_ERROR(loop.time_once().status());
    ++result.warmup_runs;
  } while (clock.now() - start < options.warmup);

  std::vector<double> cpu_seconds;
  const TimePoint begin = clock.now();
  while (result.samples_ms.size() < options.most_samples) {
    const bool enough = result.samples_ms.size() >= std::max<std::size_t>(options.least_samples, 1);
    if (enough && clock.now() - begin >= options.duration) break;
    if (loop.past_deadline()) {
      result.cut_short = true;
      break;
    }
    KPT_ASSIGN_OR_RETURN(const double milliseconds, loop.time_once());
    result.samples_ms.push_back(milliseconds);
    cpu_seconds.push_back(loop.last_cpu_seconds());
  }
  if (result.samples_ms.empty()) {
    return Status(StatusCode::kDeadlineExceeded, "the time limit passed before the first sample");
  }
  keep_steady_part(result, std::move(cpu_seconds));
  return result;
}

}  // namespace kpt
