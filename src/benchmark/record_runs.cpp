#include "benchmark/record_runs.h"

#include <chrono>

namespace kpt {
namespace {

std::int64_t now_ns() {
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(since).count();
}

class NodeRecorder final : public NodeObserver {
 public:
  explicit NodeRecorder(std::vector<NodePeriod>& periods) : periods_(periods) {}
  void begin_node(std::size_t node) override { periods_.push_back({node, {now_ns(), 0}}); }
  void end_node(std::size_t) override { periods_.back().elapsed.end_ns = now_ns(); }

 private:
  std::vector<NodePeriod>& periods_;
};

Status do_rounds(const RunToRecord& run, int rounds, std::vector<Period>& periods, NodeObserver* observer) {
  for (int round = 0; round < rounds; ++round) {
    KPT_RETURN_IF_ERROR(run.prepare());
    const std::int64_t begin = now_ns();
    KPT_RETURN_IF_ERROR(run.run(observer));
    periods.push_back({begin, now_ns()});
  }
  return {};
}

}  // namespace

Result<RecordedRuns> record_runs(Device& device, int rounds, const RunToRecord& run) {
  RecordedRuns made;
  Recording& recording = made.recording;
  NodeRecorder recorder(recording.nodes);
  bool started = false;
  Status outcome;
  auto activities = device.record([&]() -> Status {
    started = true;
    outcome = do_rounds(run, rounds, recording.runs, nullptr);
    if (outcome.ok()) outcome = do_rounds(run, rounds, recording.observed_runs, &recorder);
    return outcome;
  });
  KPT_RETURN_IF_ERROR(outcome);
  if (activities.ok()) {
    recording.activities = std::move(*activities);
    return made;
  }
  if (activities.status().code() != StatusCode::kUnsupported) return activities.status();
  made.note = activities.status().message();
  if (!started) KPT_RETURN_IF_ERROR(do_rounds(run, rounds, recording.runs, nullptr));
  return made;
}

}  // namespace kpt
