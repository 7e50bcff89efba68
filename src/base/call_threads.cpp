#include "base/call_threads.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/log.h"
#include "base/stray_threads.h"

namespace kpt {

std::optional<CallEnd> CallLimit::find_end() const {
  if (cancelled != nullptr && cancelled->load(std::memory_order_relaxed)) return CallEnd::kCancelled;
  if (std::chrono::steady_clock::now() >= end) return CallEnd::kLate;
  return std::nullopt;
}

std::optional<std::chrono::steady_clock::time_point> CallLimit::next_look() const {
  constexpr std::chrono::milliseconds kUnheard{20};  // how long a cancellation may go unheard
  if (cancelled != nullptr) return std::min(end, std::chrono::steady_clock::now() + kUnheard);
  // Not as a time to wait for: a library that converts it to another clock may pass the end of that one.
  if (end == kNever) return std::nullopt;
  return end;
}

namespace {

template <typename Done>
CallEnd wait_within(std::condition_variable& changed, std::unique_lock<std::mutex>& lock, const CallLimit& limit,
                    const Done& done) {
  while (!done()) {
    if (const auto end = limit.find_end()) return *end;
    if (const auto next = limit.next_look()) {
      changed.wait_until(lock, *next);
    } else {
      changed.wait(lock);
    }
  }
  return CallEnd::kDone;
}

}  // namespace

// Written by the thread that calls, read by others.
struct CallInProgress::Place {
  std::atomic<const char*> name{nullptr};
  std::atomic<std::chrono::steady_clock::rep> begin{0};  // of the steady clock; 0: no call
  const void* threads = nullptr;                         // CallThreads::Shared that the thread belongs to

  std::optional<CallAge> find() const {
    const auto since = begin.load(std::memory_order_acquire);
    const char* const what = name.load(std::memory_order_relaxed);
    if (since == 0 || begin.load(std::memory_order_acquire) != since) return std::nullopt;
    return CallAge{what, std::chrono::steady_clock::time_point(std::chrono::steady_clock::duration(since))};
  }
};

namespace {

thread_local CallInProgress::Place* this_place = nullptr;

}  // namespace

CallInProgress::CallInProgress(const char* name) noexcept : place_(this_place) {
  if (place_ == nullptr) return;
  place_->name.store(name, std::memory_order_relaxed);
  place_->begin.store(std::chrono::steady_clock::now().time_since_epoch().count(), std::memory_order_release);
}

CallInProgress::~CallInProgress() {
  if (place_ != nullptr) place_->begin.store(0, std::memory_order_release);
}

struct CallThreads::Worker {
  std::mutex mutex;
  std::condition_variable changed;
  std::function<void()> work;
  std::exception_ptr failure;
  bool busy = false;
  bool given_up = false;
  bool ending = false;
  CallInProgress::Place place;
  std::thread thread;
};

// Of all threads; those that were given up may outlive their CallThreads.
struct CallThreads::Shared {
  std::mutex mutex;
  std::condition_variable changed;
  std::size_t given_up = 0;
  std::vector<std::shared_ptr<void>> left;  // to destroy when work that was given up comes back
  std::vector<std::shared_ptr<Worker>> idle;
  std::vector<std::shared_ptr<Worker>> busy;  // those that were given up among them

  // With the lock held.
  std::optional<CallAge> find_oldest_call() const {
    std::optional<CallAge> oldest;
    for (const std::shared_ptr<Worker>& worker : busy) {
      const auto call = worker->place.find();
      if (call && (!oldest || call->begin < oldest->begin)) oldest = call;
    }
    return oldest;
  }

  // By the thread of such work, at its end.
  void come_back(const std::shared_ptr<Worker>& worker) {
    std::unique_lock lock(mutex);
    while (!left.empty()) {
      std::vector<std::shared_ptr<void>> going = std::exchange(left, {});
      lock.unlock();
      going.clear();
      lock.lock();
    }
    --given_up;
    std::erase(busy, worker);
    lock.unlock();
    changed.notify_all();
    remove_stray_thread();
  }
};

CallThreads::CallThreads() : shared_(std::make_shared<Shared>()) {}

CallThreads::~CallThreads() {
  std::vector<std::shared_ptr<Worker>> idle;
  {
    const std::lock_guard lock(shared_->mutex);
    idle = std::move(shared_->idle);
  }
  for (const std::shared_ptr<Worker>& worker : idle) {
    {
      const std::lock_guard lock(worker->mutex);
      worker->ending = true;
    }
    worker->changed.notify_all();
    worker->thread.join();
  }
}

void CallThreads::serve(const std::shared_ptr<Worker>& worker, const std::shared_ptr<Shared>& shared) {
  this_place = &worker->place;
  for (;;) {
    std::function<void()> work;
    {
      std::unique_lock lock(worker->mutex);
      worker->changed.wait(lock, [&worker] { return worker->ending || worker->work != nullptr; });
      if (worker->work == nullptr) return;
      work = std::exchange(worker->work, nullptr);
    }
    std::exception_ptr failure;
    try {
      work();
    } catch (...) {
      failure = std::current_exception();
    }
    work = nullptr;  // what it owns goes before its caller hears of the end
    bool given_up = false;
    {
      const std::lock_guard lock(worker->mutex);
      worker->failure = std::move(failure);
      worker->busy = false;
      given_up = worker->given_up;
    }
    worker->changed.notify_all();
    if (!given_up) continue;
    shared->come_back(worker);
    return;
  }
}

std::shared_ptr<CallThreads::Worker> CallThreads::take_worker() {
  {
    const std::lock_guard lock(shared_->mutex);
    if (!shared_->idle.empty()) {
      std::shared_ptr<Worker> worker = std::move(shared_->idle.back());
      shared_->idle.pop_back();
      shared_->busy.push_back(worker);
      return worker;
    }
  }
  auto worker = std::make_shared<Worker>();
  worker->place.threads = shared_.get();
  worker->thread = std::thread([worker, shared = shared_] { serve(worker, shared); });
  const std::lock_guard lock(shared_->mutex);
  shared_->busy.push_back(worker);
  return worker;
}

CallEnd CallThreads::wait(Worker& worker, std::unique_lock<std::mutex>& lock, const CallLimit& limit) const {
  if (limit.longest_call.count() == 0) {
    return wait_within(worker.changed, lock, limit, [&worker] { return !worker.busy; });
  }
  while (worker.busy) {
    if (const auto end = limit.find_end()) return *end;
    // A call that begins later than now is not too long before then.
    auto next = std::chrono::steady_clock::now() + limit.longest_call;
    if (const auto call = find_oldest_call()) next = call->begin + limit.longest_call;
    if (next <= std::chrono::steady_clock::now()) return CallEnd::kStuck;
    worker.changed.wait_until(lock, std::min(next, limit.next_look().value_or(next)));
  }
  return CallEnd::kDone;
}

CallEnd CallThreads::run(std::function<void()> work, const CallLimit& limit,
                         const std::function<CallLimit(CallEnd end)>& rest) {
  std::shared_ptr<Worker> worker;
  try {
    worker = take_worker();
  } catch (const std::system_error& error) {
    log::warn("no thread can be had, so a call into a library has no time limit", {{"reason", error.what()}});
    work();
    return CallEnd::kDone;
  }
  std::unique_lock lock(worker->mutex);
  worker->work = std::move(work);
  worker->busy = true;
  worker->changed.notify_all();
  CallEnd end = wait(*worker, lock, limit);
  if (end != CallEnd::kDone && rest && wait(*worker, lock, rest(end)) == CallEnd::kDone) end = CallEnd::kDone;
  if (end != CallEnd::kDone) {
    {
      const std::lock_guard counting(shared_->mutex);
      ++shared_->given_up;
    }
    add_stray_thread();
    worker->given_up = true;
    worker->thread.detach();
    return end;
  }
  const std::exception_ptr failure = std::exchange(worker->failure, nullptr);
  lock.unlock();
  {
    const std::lock_guard keeping(shared_->mutex);
    std::erase(shared_->busy, worker);
    shared_->idle.push_back(std::move(worker));
  }
  if (failure != nullptr) std::rethrow_exception(failure);
  return end;
}

void CallThreads::destroy(std::shared_ptr<void> things, std::chrono::milliseconds limit, std::string_view owner) {
  if (is_own_thread()) return;  // they go with the argument
  {
    const std::lock_guard lock(shared_->mutex);
    if (shared_->given_up > 0) {
      shared_->left.push_back(std::move(things));
      return;
    }
  }
  if (run([things = std::move(things)] {}, CallLimit::from_now(limit)) == CallEnd::kDone) return;
  const auto call = find_oldest_call();
  log::warn("a library keeps what it was asked to let go",
            {{"owner", call ? fmt::format("{} in {}", owner, call->name) : std::string(owner)},
             {"seconds", fmt::format("{:.1f}", static_cast<double>(limit.count()) / 1000.0)}});
}

bool CallThreads::is_own_thread() const { return this_place != nullptr && this_place->threads == shared_.get(); }

std::optional<CallAge> CallThreads::find_oldest_call() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->find_oldest_call();
}

std::size_t CallThreads::given_up() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->given_up;
}

CallEnd CallThreads::wait_for_given_up(const CallLimit& limit) const {
  std::unique_lock lock(shared_->mutex);
  return wait_within(shared_->changed, lock, limit, [this] { return shared_->given_up == 0; });
}

}  // namespace kpt
