// Work on one device whose runtime may never come back from a call and cannot be stopped: each operation (a load, a
// run, a copy, a release) goes to a thread of its own as a whole, and its caller waits only so long.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "base/call_threads.h"
#include "kpt/status.h"

namespace kpt::native {

// What a caller waits for beside the limit of one call.
struct Patience {
  std::optional<std::chrono::steady_clock::time_point> deadline;
  const std::atomic<bool>* cancelled = nullptr;
  // Set when the work was cancelled or nobody waits for it any more: it ends when it sees that.
  std::shared_ptr<std::atomic<bool>> unwanted;
};

// Thread safe; made as a shared_ptr, since work that was given up keeps it. Calls of the runtime are those that
// CallInProgress names. While one of them lasts longer than the limit, whoever waits for the device is told so
// (kDeadlineExceeded), and everybody who asks for something afterwards at once (kDeviceNotAvailable); when it comes
// back after all, the device is used again.
class DeviceCalls : public std::enable_shared_from_this<DeviceCalls> {
 public:
  // `device`: as messages name it.
  DeviceCalls(std::string device, Vendor vendor, std::chrono::milliseconds longest_call = kLongestCall)
      : device_(std::move(device)), vendor_(vendor), longest_call_(longest_call) {}

  // Fails with kDeviceNotAvailable while a call has not come back within the limit.
  Status check() const;

  // Ok when `work` has ended. Otherwise it may still run, so it must own all that it uses; fails then as check() does,
  // and with kDeadlineExceeded and kCancelled. A deadline or a cancellation leaves the work a second or so to end by
  // itself, as long as no call of the runtime holds it up. Work of this device's threads is done where it is.
  Status run(std::function<void()> work, const Patience& patience = {});

  // What `work` gives (a Status or a Result), or why nobody waits for it any more. The same rules hold for it.
  template <typename Work>
  std::invoke_result_t<Work&> ask(Work work, const Patience& patience = {}) {
    using Answer = std::invoke_result_t<Work&>;
    const auto answer = std::make_shared<std::optional<Answer>>();
    const Status ended = run([answer, work = std::move(work)]() mutable { answer->emplace(work()); }, patience);
    if (!ended.ok()) return Answer(ended);
    return std::move(**answer);
  }

  // Destroys what the device has a part in, within the limit; after a call that did not come back, never or then.
  template <typename T>
  void let_go(T things) noexcept {
    threads_.let_go(std::move(things), longest_call_, device_);
  }

 private:
  Status give_up(CallEnd end) const;

  std::string device_;
  Vendor vendor_;
  std::chrono::milliseconds longest_call_;
  CallThreads threads_;
};

}  // namespace kpt::native
