// Memory of a device that models keep for their next runs, such as captured ones, and give up when another model of the
// process lacks it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <vector>

namespace kpt::aten {

class MemoryKeeper {
 public:
  MemoryKeeper() = default;
  MemoryKeeper(const MemoryKeeper&) = delete;
  MemoryKeeper& operator=(const MemoryKeeper&) = delete;
  virtual ~MemoryKeeper() = default;

  // About what giving up would free. Any thread.
  virtual std::uint64_t kept_bytes() const noexcept = 0;
  // Gives it up and says how much that was; 0 where nothing is kept, or where somebody is at work with it. Never waits
  // for another thread's run to be queued: that thread may be waiting here.
  virtual std::uint64_t give_up() noexcept = 0;

  // What is used last is given up last.
  void use() noexcept { used_ = std::chrono::steady_clock::now().time_since_epoch().count(); }
  std::int64_t last_use() const noexcept { return used_; }

 private:
  std::atomic<std::int64_t> used_ = 0;
};

// Those of one device. Thread safe.
class MemoryKeepers {
 public:
  void add(MemoryKeeper& keeper);
  // Returns when nobody asks it for anything any longer.
  void remove(MemoryKeeper& keeper);

  // What all but `asking` keep, or all where that is null.
  std::uint64_t count_others(const MemoryKeeper* asking) const;
  // One of these gives up what it keeps: of those that are not at work, the one that was used longest ago. 0: none.
  std::uint64_t give_up_one(const MemoryKeeper* asking);

 private:
  mutable std::mutex mutex_;
  std::vector<MemoryKeeper*> all_;
};

// Lives until the process ends.
MemoryKeepers& keepers_of(std::int32_t device);

}  // namespace kpt::aten
