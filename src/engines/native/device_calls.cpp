#include "engines/native/device_calls.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/log.h"

namespace kpt::native {
namespace {

// For work that was told to end: longer than a stream gets to come to rest, and what a call may hold that up.
constexpr std::chrono::milliseconds kRest{1500};
constexpr std::chrono::milliseconds kLongestCallInRest{100};

constexpr const char* kAdvice = "see whether the device is there and free (kpt doctor), and start the program again";

double seconds(std::chrono::steady_clock::duration time) { return std::chrono::duration<double>(time).count(); }

double age(const CallAge& call) { return seconds(std::chrono::steady_clock::now() - call.begin); }

}  // namespace

Status DeviceCalls::check() const {
  const auto call = threads_.find_oldest_call();
  if (!call || std::chrono::steady_clock::now() - call->begin < longest_call_) return {};
  return {StatusCode::kDeviceNotAvailable,
          fmt::format("{} does not answer: it has not come back from {} for {:.1f} s; {}", device_, call->name,
                      age(*call), kAdvice),
          vendor_};
}

Status DeviceCalls::give_up(CallEnd end) const {
  const auto call = threads_.find_oldest_call();
  const std::string name = call ? std::string(call->name) : "a call";  // that came back a moment ago
  log::warn("work on a device was given up; what it uses stays until it comes back",
            {{"device", device_}, {"call", call ? name : "none"}});
  if (end == CallEnd::kCancelled) return {StatusCode::kCancelled, "the run was cancelled"};
  if (end == CallEnd::kStuck) {
    return {StatusCode::kDeadlineExceeded,
            fmt::format("{} has not answered {} within {:.1f} s; {}", device_, name, seconds(longest_call_), kAdvice),
            vendor_};
  }
  if (!call) return {StatusCode::kDeadlineExceeded, "the run passed its time limit"};
  return {StatusCode::kDeadlineExceeded,
          fmt::format("the run passed its time limit; {} has not come back from {} for {:.1f} s", device_, name,
                      age(*call)),
          vendor_};
}

Status DeviceCalls::run(std::function<void()> work, const Patience& patience) {
  if (threads_.is_own_thread()) {
    work();
    return {};
  }
  KPT_RETURN_IF_ERROR(check());
  const auto rest = [&](CallEnd end) -> CallLimit {
    // Work that has a deadline knows of it.
    if (end == CallEnd::kCancelled && patience.unwanted != nullptr) *patience.unwanted = true;
    return {std::chrono::steady_clock::now() + kRest, nullptr, std::min(longest_call_, kLongestCallInRest)};
  };
  const CallLimit limit{patience.deadline.value_or(CallLimit::kNever), patience.cancelled, longest_call_};
  const CallEnd end = threads_.run([self = shared_from_this(), work = std::move(work)] { work(); }, limit, rest);
  if (end == CallEnd::kDone) return {};
  if (patience.unwanted != nullptr) *patience.unwanted = true;
  return give_up(end);
}

}  // namespace kpt::native
