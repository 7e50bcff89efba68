#include "backends/amd/hip_recorder.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "base/reword.h"
#include "engines/native/kept_memory.h"

namespace kpt {
namespace {

std::int64_t now_ns() {
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(since).count();
}

std::int64_t this_lane() { return static_cast<std::int64_t>(std::hash<std::thread::id>{}(std::this_thread::get_id())); }

// HIP tells milliseconds as a float: a microsecond's part is lost after some seconds.
std::int64_t to_ns(std::chrono::duration<float, std::milli> time) {
  return static_cast<std::int64_t>(static_cast<double>(time.count()) * 1e6);
}

}  // namespace

Result<HipRecorder::Origin> HipRecorder::make_origin() const {
  KPT_ASSIGN_OR_RETURN(HipStream stream, device_.make_stream());
  KPT_ASSIGN_OR_RETURN(HipEvent event, device_.make_event());
  const std::int64_t before = now_ns();
  KPT_RETURN_IF_ERROR(stream.record(event));
  if (Status status = event.synchronize(limit_); !status.ok()) {
    if (status.code() == StatusCode::kDeadlineExceeded) {
      // HIP waits for what is queued when a stream is destroyed: with a GPU that hangs, for ever.
      native::keep_forever(std::make_shared<HipStream>(std::move(stream)));
      native::keep_forever(std::make_shared<HipEvent>(std::move(event)));
    }
    return status;
  }
  // It came in between; with the later moment, work at the end of a run would seem to begin after it.
  return Origin{std::move(event), before + (now_ns() - before) / 2};
}

Status HipRecorder::start() {
  KPT_ASSIGN_OR_RETURN(Origin origin, make_origin());
  const std::lock_guard lock(mutex_);
  if (origin_) return {StatusCode::kAlreadyExists, "what this device does is being recorded already", Vendor::kAmd};
  origin_.emplace(std::move(origin));
  work_.clear();
  listens_ = true;
  return {};
}

void HipRecorder::stop(std::optional<Origin>& origin, std::deque<Work>& work) {
  const std::lock_guard lock(mutex_);
  listens_ = false;
  origin = std::exchange(origin_, std::nullopt);
  work.swap(work_);
}

Result<std::vector<Activity>> HipRecorder::finish() {
  std::optional<Origin> origin;
  std::deque<Work> work;
  stop(origin, work);
  if (!origin) return std::vector<Activity>();
  return read(*origin, work);
}

void HipRecorder::drop() {
  std::optional<Origin> origin;
  std::deque<Work> work;
  stop(origin, work);  // the events go without the lock
}

Result<std::vector<Activity>> HipRecorder::read(const Origin& origin, const std::deque<Work>& work) const {
  std::vector<Activity> activities;
  std::uint64_t correlation = 0;
  const auto end = std::chrono::steady_clock::now() + limit_;
  for (const Work& one : work) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    const Status status = one.end.synchronize(std::max(left, std::chrono::milliseconds(0)));
    if (status.code() == StatusCode::kDeadlineExceeded) {
      return reword(status, status.code(),
                    fmt::format("{} (all that was recorded had {} ms)", status.message(), limit_.count()));
    }
    KPT_RETURN_IF_ERROR(status);
    KPT_ASSIGN_OR_RETURN(const auto begin, one.begin.since(origin.event));
    KPT_ASSIGN_OR_RETURN(const auto taken, one.end.since(one.begin));
    Activity call = one.call;
    call.correlation = ++correlation;
    activities.push_back(std::move(call));
    activities.push_back({one.kind, one.name, origin.at_ns + to_ns(begin), to_ns(taken), one.stream, correlation});
  }
  return activities;
}

Status HipRecorder::record(Activity::Kind kind, std::string_view name, std::string_view call, const HipStream& stream,
                           const std::function<Status()>& queue) {
  KPT_ASSIGN_OR_RETURN(HipEvent begin, device_.make_event());
  KPT_ASSIGN_OR_RETURN(HipEvent end, device_.make_event());
  KPT_RETURN_IF_ERROR(stream.record(begin));
  const std::int64_t called = now_ns();
  KPT_RETURN_IF_ERROR(queue());
  const Activity host{Activity::Kind::kCall, std::string(call), called, now_ns() - called, this_lane(), 0};
  KPT_RETURN_IF_ERROR(stream.record(end));
  const std::lock_guard lock(mutex_);
  if (!origin_) return {};  // nobody listens any more
  const auto lane = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(stream.get()));
  work_.push_back({kind, std::string(name), host, std::move(begin), std::move(end), lane});
  return {};
}

}  // namespace kpt
