// What a GPU did while somebody listened: kernels and copies between events of their streams, and the calls that queued
// them.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/amd/hip_runtime.h"
#include "device/activity.h"
#include "kpt/status.h"

namespace kpt {

// Thread safe. Listens from start() to finish(), one at a time.
class HipRecorder {
 public:
  // `limit`: how long start() and finish() wait for the device.
  explicit HipRecorder(HipDevice device, std::chrono::milliseconds limit = std::chrono::seconds(30))
      : device_(std::move(device)), limit_(limit) {}

  // Fails with kAlreadyExists when somebody listens already, with kDeadlineExceeded, and as HIP's events do.
  Status start();
  // Waits for what was heard: of a run that has ended it is over, of one in another thread it may not be. Fails with
  // kDeadlineExceeded and as HIP's events do; listens no more in any case.
  Result<std::vector<Activity>> finish();
  // Forgets what was heard and listens no more, without a look at the device: after work that failed, which may never
  // end.
  void drop();

  // `queue` puts work on the stream by `call` of HIP's. Without a listener it is just called: every launch goes through
  // here. Fails as it does, and as recording events does.
  template <typename Queue>
  Status around(Activity::Kind kind, std::string_view name, std::string_view call, const HipStream& stream,
                const Queue& queue) {
    if (!listens_.load(std::memory_order_relaxed)) return queue();
    return record(kind, name, call, stream, queue);
  }

 private:
  struct Work {
    Activity::Kind kind;
    std::string name;
    Activity call;
    HipEvent begin;
    HipEvent end;
    std::int64_t stream;
  };
  // A moment that is known by both clocks.
  struct Origin {
    HipEvent event;
    std::int64_t at_ns = 0;
  };

  Result<Origin> make_origin() const;
  Status record(Activity::Kind kind, std::string_view name, std::string_view call, const HipStream& stream,
                const std::function<Status()>& queue);
  // Listens no more; what was heard comes out.
  void stop(std::optional<Origin>& origin, std::deque<Work>& work);
  Result<std::vector<Activity>> read(const Origin& origin, const std::deque<Work>& work) const;

  HipDevice device_;
  std::chrono::milliseconds limit_;
  std::atomic<bool> listens_ = false;
  std::mutex mutex_;
  std::optional<Origin> origin_;  // set while somebody listens
  std::deque<Work> work_;
};

}  // namespace kpt
