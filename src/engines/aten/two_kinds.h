// Work of two kinds around a setting of the whole process: any number of one kind may be under way together, never
// both.
#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <utility>

namespace kpt::aten {

// Thread safe. Under contention the kinds take turns, so neither waits for ever.
class TwoKinds {
 public:
  // `set` is called before the first work of the special kind begins, `reset` after the last has ended. What `set`
  // throws reaches whoever began; `reset` must not throw.
  TwoKinds(std::function<void()> set, std::function<void()> reset) : set_(std::move(set)), reset_(std::move(reset)) {}
  TwoKinds(const TwoKinds&) = delete;
  TwoKinds& operator=(const TwoKinds&) = delete;
  ~TwoKinds() = default;

  // Work of one kind, as long as this lives. Waits for the end of the other kind's; a thread holds one at a time.
  class Work {
   public:
    Work(TwoKinds& kinds, bool special) : kinds_(kinds), special_(special) { kinds_.begin(special_); }
    Work(const Work&) = delete;
    Work& operator=(const Work&) = delete;
    ~Work() { kinds_.end(special_); }

   private:
    TwoKinds& kinds_;
    bool special_;
  };

 private:
  void begin(bool special) {
    const std::size_t own = special ? 1 : 0;
    const std::size_t other = 1 - own;
    std::unique_lock lock(mutex_);
    ++waiting_[own];
    changed_.wait(lock, [&] {
      if (under_way_ == 0) return waiting_[other] == 0 || next_ == own;
      return current_ == own && waiting_[other] == 0;
    });
    --waiting_[own];
    if (special && under_way_ == 0) {
      try {
        set_();
      } catch (...) {
        changed_.notify_all();
        throw;
      }
    }
    current_ = own;
    next_ = other;
    ++under_way_;
    changed_.notify_all();  // those of this kind who waited for the same end
  }

  void end(bool special) {
    const std::lock_guard lock(mutex_);
    if (--under_way_ > 0) return;
    if (special) reset_();
    changed_.notify_all();
  }

  std::function<void()> set_;
  std::function<void()> reset_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::array<std::size_t, 2> waiting_ = {};
  std::size_t under_way_ = 0;
  std::size_t current_ = 0;  // of what is under way
  std::size_t next_ = 0;     // whose turn it is when both wait
};

}  // namespace kpt::aten
