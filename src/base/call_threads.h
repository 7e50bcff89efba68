// Work inside a library of others that may never come back and cannot be stopped: a PJRT plugin, a GPU's runtime. It
// runs on a thread of its own; who asked for it waits only so long, and the work then goes on alone until the library
// lets it end.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <string_view>
#include <utility>

#include "kpt/status.h"

namespace kpt {

// What a library may take for one answer where the caller sets no limit.
inline constexpr std::chrono::milliseconds kLongestCall{600000};

enum class CallEnd : std::uint8_t { kDone, kLate, kCancelled };

// How long a caller waits.
struct CallLimit {
  static constexpr auto kNever = std::chrono::steady_clock::time_point::max();

  std::chrono::steady_clock::time_point end;     // kNever: as long as it takes
  const std::atomic<bool>* cancelled = nullptr;  // looked at fifty times a second

  static CallLimit from_now(std::chrono::milliseconds time) { return {std::chrono::steady_clock::now() + time}; }
  // Why the caller waits no longer; nothing while it may.
  std::optional<CallEnd> find_end() const;
  // When to look again at the latest; nothing: only when the work is done.
  std::optional<std::chrono::steady_clock::time_point> next_look() const;
};

// Thread safe. Threads are kept for later work and end with this object; one whose work was given up ends when that
// does.
class CallThreads {
 public:
  CallThreads();
  CallThreads(const CallThreads&) = delete;
  CallThreads& operator=(const CallThreads&) = delete;
  ~CallThreads();

  // kDone: `work` has ended and is destroyed. Otherwise it may still run: it must own all that it uses. Throws what
  // `work` throws. Where there is no thread to be had, the caller does the work, without a limit, and the log says so.
  CallEnd run(std::function<void()> work, const CallLimit& limit);

  // Destroys `things`, which the library of `owner` has a part in, on such a thread, and waits for it so long; the log
  // tells of what stays. While work that was given up has not come back they wait for that, and nobody for them. For
  // destructors.
  template <typename T>
  void let_go(T things, std::chrono::milliseconds limit, std::string_view owner) noexcept {
    try {
      destroy(std::make_shared<T>(std::move(things)), limit, owner);
    } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): then they are destroyed here
    }
  }

  // Work that was given up and has not come back.
  std::size_t given_up() const;
  // Waits until there is none.
  CallEnd wait_for_given_up(const CallLimit& limit) const;

 private:
  struct Worker;
  struct Shared;
  static void serve(const std::shared_ptr<Worker>& worker, const std::shared_ptr<Shared>& shared);
  std::shared_ptr<Worker> take_worker();
  void destroy(std::shared_ptr<void> things, std::chrono::milliseconds limit, std::string_view owner);

  std::shared_ptr<Shared> shared_;
};

// What `work` gives, or what `late` says. The same rules hold for `work`.
template <typename T, typename Late>
Result<T> call_within(CallThreads& threads, std::chrono::milliseconds limit, const Late& late,
                      std::function<Result<T>()> work) {
  const auto answer = std::make_shared<std::optional<Result<T>>>();
  const CallEnd end =
      threads.run([answer, work = std::move(work)] { answer->emplace(work()); }, CallLimit::from_now(limit));
  if (end == CallEnd::kDone) return std::move(**answer);
  return late();
}

}  // namespace kpt
