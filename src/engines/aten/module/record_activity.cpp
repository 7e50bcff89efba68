#include "engines/aten/module/record_activity.h"

#include <atomic>
#include <cctype>
#include <set>
#include <string_view>

#include <torch/csrc/autograd/profiler_kineto.h>

#include "engines/aten/module/guarded_call.h"

namespace kpt::aten {
namespace {

namespace profiler = torch::autograd::profiler;

// "cudaLaunchKernel", "cuLaunchKernelEx", but not "cumsum".
bool is_runtime_call(std::string_view name) {
  if (name.starts_with("cuda")) return true;
  return name.starts_with("cu") && name.size() > 2 && std::isupper(static_cast<unsigned char>(name[2])) != 0;
}

Activity::Kind kind_of(const profiler::KinetoEvent& event, std::string_view name) {
  if (event.deviceType() == c10::DeviceType::CPU) {
    return is_runtime_call(name) ? Activity::Kind::kCall : Activity::Kind::kOperator;
  }
  const bool moves = name.starts_with("Memcpy") || name.starts_with("Memset");
  return moves ? Activity::Kind::kCopy : Activity::Kind::kKernel;
}

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

std::vector<Activity> record_activity(const std::function<void()>& work, bool with_cuda) {
  const Recorder recorder;
  using torch::profiler::impl::ActivityType;
  const torch::profiler::impl::ProfilerConfig config(torch::profiler::impl::ProfilerState::KINETO);
  std::set<ActivityType> wanted = {ActivityType::CPU};
  if (with_cuda) wanted.insert(ActivityType::CUDA);
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
    const Activity::Kind kind = kind_of(event, name);
    const bool on_host = kind == Activity::Kind::kOperator || kind == Activity::Kind::kCall;
    activities.push_back({kind, std::move(name), static_cast<std::int64_t>(event.startNs()),
                          static_cast<std::int64_t>(event.durationNs()),
                          on_host ? static_cast<std::int64_t>(event.startThreadId()) : event.deviceResourceId(),
                          event.correlationId()});
  }
  return activities;
}

}  // namespace kpt::aten
