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
#include <mutex>
#include <new>
#include <optional>
#include <string_view>
#include <utility>

#include "kpt/status.h"

namespace kpt {

// What a library may take for one answer where the caller sets no limit.
inline constexpr std::chrono::milliseconds kLongestCall{600000};

// kStuck: one call of the library lasts too long.
enum class CallEnd : std::uint8_t { kDone, kLate, kCancelled, kStuck };

// How long a caller waits.
struct CallLimit {
  static constexpr auto kNever = std::chrono::steady_clock::time_point::max();

  std::chrono::steady_clock::time_point end;     // kNever: as long as it takes
  const std::atomic<bool>* cancelled = nullptr;  // looked at fifty times a second
  // What one call of the library may last (CallInProgress), of this work or of any other of the same threads: who waits
  // for a lock of theirs is held up, too. 0: as long as it likes.
  std::chrono::milliseconds longest_call{0};

  static CallLimit from_now(std::chrono::milliseconds time) { return {std::chrono::steady_clock::now() + time}; }
  // Why the caller waits no longer; nothing while it may.
  std::optional<CallEnd> find_end() const;
  // When to look again at the latest; nothing: only when the work is done.
  std::optional<std::chrono::steady_clock::time_point> next_look() const;
};

// One call of a library, while this object lives: tells those who wait for the work of this thread what it does.
// Without effect on threads of others. `name` must live for ever. Such calls do not nest.
class CallInProgress {
 public:
  explicit CallInProgress(const char* name) noexcept;
  CallInProgress(const CallInProgress&) = delete;
  CallInProgress& operator=(const CallInProgress&) = delete;
  ~CallInProgress();

  struct Place;

 private:
  Place* place_;  // null: nobody waits for this thread
};

struct CallAge {
  std::string_view name;
  std::chrono::steady_clock::time_point begin;
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
  // `rest` is called when the limit is passed: it may ask the work to end, and says how long the caller waits for that.
  CallEnd run(std::function<void()> work, const CallLimit& limit,
              const std::function<CallLimit(CallEnd end)>& rest = {});

  // Destroys `things`, which the library of `owner` has a part in, on such a thread, and waits for it so long; the log
  // tells of what stays. While work that was given up has not come back they wait for that, and nobody for them. On one
  // of these threads they are destroyed at once. For destructors.
  template <typename T>
  void let_go(T things, std::chrono::milliseconds limit, std::string_view owner) noexcept {
    try {
      destroy(std::make_shared<T>(std::move(things)), limit, owner);
    } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): then they are destroyed here
    }
  }

  // Whether the calling thread is one of these.
  bool is_own_thread() const;
  // The call of the library that was begun first and goes on, of work that is waited for or was given up.
  std::optional<CallAge> find_oldest_call() const;

  // Work that was given up and has not come back.
  std::size_t given_up() const;
  // Waits until there is none.
  CallEnd wait_for_given_up(const CallLimit& limit) const;

 private:
  struct Worker;
  struct Shared;
  static void serve(const std::shared_ptr<Worker>& worker, const std::shared_ptr<Shared>& shared);
  std::shared_ptr<Worker> take_worker();
  CallEnd wait(Worker& worker, std::unique_lock<std::mutex>& lock, const CallLimit& limit) const;
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
