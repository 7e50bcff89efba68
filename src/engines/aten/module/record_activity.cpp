#include "engines/aten/module/record_activity.h"

#include <atomic>
#include <set>

#include <torch/csrc/autograd/profiler_kineto.h>

#include "engines/aten/activity_kind.h"
#include "engines/aten/module/guarded_call.h"

namespace kpt::aten {
namespace {

namespace profiler = torch::autograd::profiler;

// One recording at a time: the profiler's own check is for one thread only.
class Recorder {
 public:
  Recorder() {
    if (busy().test_and_set()) throw CallFailure(CallCode::kFailed, "another recording is under way");
  }
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;
  ~Recorder() { busy().clear(); }

 private:
  static std::atomic_flag& busy() {
    static std::atomic_flag flag;
    return flag;
  }
};

}  // namespace

std::vector<Activity> record_activity(const std::function<void()>& work, bool with_gpus) {
  const Recorder recorder;
  using torch::profiler::impl::ActivityType;
  const torch::profiler::impl::ProfilerConfig config(torch::profiler::impl::ProfilerState::KINETO);
  std::set<ActivityType> wanted = {ActivityType::CPU};
  if (with_gpus) wanted.insert(ActivityType::CUDA);  // a ROCm build calls its GPUs so
  profiler::prepareProfiler(config, wanted);
  profiler::enableProfiler(config, wanted);
  try {
    work();
  } catch (...) {
    profiler::disableProfiler();
    throw;
  }
  const auto recorded = profiler::disableProfiler();
  std::vector<Activity> activities;
  activities.reserve(recorded->events().size());
  for (const profiler::KinetoEvent& event : recorded->events()) {
    std::string name = event.name();
    const Activity::Kind kind = activity_kind(name, event.deviceType() == c10::DeviceType::CPU);
    const bool on_host = kind == Activity::Kind::kOperator || kind == Activity::Kind::kCall;
    activities.push_back({kind, std::move(name), static_cast<std::int64_t>(event.startNs()),
                          static_cast<std::int64_t>(event.durationNs()),
                          on_host ? static_cast<std::int64_t>(event.startThreadId()) : event.deviceResourceId(),
                          event.correlationId()});
  }
  return activities;
}

}  // namespace kpt::aten
