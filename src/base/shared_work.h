// Expensive work that several threads may ask for at once: one does it, the others wait for what it gives.
#pragma once

#include <exception>
#include <functional>
#include <future>
#include <map>
#include <mutex>
#include <new>

#include "kpt/status.h"

namespace kpt {

// Nothing is kept: who wants to keep results does so within `make`, and looks there first, since the work may have
// ended between the caller's own look and the call. Work for other keys goes on at the same time. Thread safe.
template <typename Key, typename Value>
class SharedWork {
 public:
  // A failure is given to all who wait for it. `make` must not ask for the same key.
  Result<Value> run(const Key& key, const std::function<Result<Value>()>& make) {
    std::promise<Result<Value>> promise;
    std::shared_future<Result<Value>> waiting;
    {
      const std::lock_guard lock(mutex_);
      const auto found = in_work_.find(key);
      if (found != in_work_.end()) {
        waiting = found->second;
      } else {
        in_work_.emplace(key, promise.get_future().share());
      }
    }
    if (waiting.valid()) return waiting.get();
    Result<Value> made = Status(StatusCode::kInternal, "not made");
    try {
      made = make();
    } catch (const std::bad_alloc&) {
      made = Status(StatusCode::kOutOfMemory, "there is no memory left for it");  // those who wait must hear of it
    } catch (...) {
      forget(key);
      promise.set_exception(std::current_exception());
      throw;
    }
    forget(key);
    promise.set_value(made);
    return made;
  }

 private:
  void forget(const Key& key) {
    const std::lock_guard lock(mutex_);
    in_work_.erase(key);
  }

  std::mutex mutex_;
  std::map<Key, std::shared_future<Result<Value>>> in_work_;
};

}  // namespace kpt
