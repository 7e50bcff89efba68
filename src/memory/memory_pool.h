// Memory of a device, kept for the next who asks: a driver's own calls take long and may wait for all queued work.
//
// When the device has no more: what is kept goes back to it, then holders are asked to let go of what they could do
// without, then the request fails with what was needed and what is free. Later requests are served as if nothing had
// been.
//
// Thread safe. Memory that comes back is given to the next request at once: work that uses it must have ended.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "device/memory_statistics.h"
#include "kpt/status.h"
#include "kpt/tensor.h"

namespace kpt {

struct DeviceMemory {
  std::uint64_t free_bytes = 0;
  std::uint64_t total_bytes = 0;
};

// A vendor's calls. What take() gave goes back to the device with the object.
struct MemorySource {
  std::function<Result<std::unique_ptr<Buffer>>(std::size_t bytes)> take;  // fails with kOutOfMemory, among others
  std::function<Result<DeviceMemory>()> ask;
};

struct MemoryLimits {
  std::uint64_t most_bytes = std::numeric_limits<std::uint64_t>::max();  // that the pool takes of the device
  std::uint64_t margin_bytes = 0;                                        // of the device that taking more must leave
  std::uint64_t kept_bytes = std::numeric_limits<std::uint64_t>::max();  // of unused memory that stays in the pool
};

class MemoryPool : public std::enable_shared_from_this<MemoryPool> {
 public:
  // `device`: as messages and buffers name it, "amd:0".
  static std::shared_ptr<MemoryPool> make(std::string device, Vendor vendor, MemorySource source, MemoryLimits limits);

  // At least one byte. Fails with kOutOfMemory when the device has no more beyond its margin, kMemoryPool when the pool
  // has all that it may take, kMemoryAllocation when the device refuses though it has enough (needed_bytes, free_bytes
  // and advice as context), else as the source does. The buffer keeps the pool alive. One request is served at a time.
  Result<std::shared_ptr<Buffer>> allocate(std::size_t bytes);
  // Gives back what nobody uses; whether there was any.
  bool release_kept();
  // From now on the tighter of each limit. What was taken before stays.
  void tighten(const MemoryLimits& limits);

  // `let_go` is called when memory ends, by whichever thread asked for more, until the returned object goes. It may
  // free memory of the pool and must not call it otherwise.
  [[nodiscard]] std::shared_ptr<void> add_holder(std::function<void()> let_go);

  MemoryStatistics statistics() const;
  void reset_peak();

 private:
  class Piece;

  MemoryPool(std::string device, Vendor vendor, MemorySource source, MemoryLimits limits)
      : device_(std::move(device)), vendor_(vendor), source_(std::move(source)), limits_(limits) {}

  Result<std::unique_ptr<Buffer>> take_or_reclaim(std::size_t bytes);
  // With taking_mutex_ held:
  std::unique_ptr<Buffer> find_kept(std::size_t bytes);
  Result<std::unique_ptr<Buffer>> take(std::size_t bytes);
  Result<std::unique_ptr<Buffer>> take_again(std::size_t bytes);
  bool drop_kept();
  void ask_holders();
  std::uint64_t count_returns() const;
  std::uint64_t margin() const;
  std::shared_ptr<Buffer> hand_out(std::unique_ptr<Buffer> memory, std::size_t asked);
  void put_back(std::unique_ptr<Buffer> memory, std::size_t asked);
  Status describe_shortage(const Status& status, std::size_t bytes) const;

  std::string device_;
  Vendor vendor_;
  MemorySource source_;

  // Held by whoever takes memory or gives kept memory back to the device: what one gives back for its own sake is not
  // the end of memory for another.
  std::mutex taking_mutex_;
  mutable std::mutex mutex_;  // of what follows, up to the holders
  MemoryLimits limits_;
  std::multimap<std::size_t, std::unique_ptr<Buffer>> kept_;  // by size
  std::uint64_t kept_bytes_ = 0;
  std::uint64_t used_bytes_ = 0;   // as they were asked for
  std::uint64_t spare_bytes_ = 0;  // in use, beyond what was asked for
  std::uint64_t peak_bytes_ = 0;
  std::uint64_t reserved_bytes_ = 0;  // taken from the device, or about to be
  std::uint64_t reserved_peak_bytes_ = 0;
  std::uint64_t returns_ = 0;  // how often memory came back, to the pool or the device
  std::uint64_t allocations_ = 0;
  std::uint64_t frees_ = 0;
  std::uint64_t shortages_ = 0;
  std::uint64_t retries_ = 0;

  std::mutex holders_mutex_;  // held while they are asked: one that goes waits for that
  std::list<std::function<void()>> holders_;
};

}  // namespace kpt
