#include "engines/aten/module/kept_memory.h"

#include <algorithm>
#include <map>
#include <utility>

namespace kpt::aten {

void MemoryKeepers::add(MemoryKeeper& keeper) {
  const std::lock_guard lock(mutex_);
  all_.push_back(&keeper);
}

void MemoryKeepers::remove(MemoryKeeper& keeper) {
  const std::lock_guard lock(mutex_);
  std::erase(all_, &keeper);
}

std::uint64_t MemoryKeepers::count_others(const MemoryKeeper* asking) const {
  const std::lock_guard lock(mutex_);
  std::uint64_t bytes = 0;
  for (const MemoryKeeper* keeper : all_) {
    if (keeper != asking) bytes += keeper->kept_bytes();
  }
  return bytes;
}

std::uint64_t MemoryKeepers::give_up_one(const MemoryKeeper* asking) {
  const std::lock_guard lock(mutex_);
  std::vector<std::pair<std::int64_t, MemoryKeeper*>> order;
  for (MemoryKeeper* keeper : all_) {
    if (keeper != asking && keeper->kept_bytes() > 0) order.emplace_back(keeper->last_use(), keeper);
  }
  std::ranges::stable_sort(order, {}, &std::pair<std::int64_t, MemoryKeeper*>::first);
  for (const auto& [used, keeper] : order) {
    if (const std::uint64_t bytes = keeper->give_up(); bytes > 0) return bytes;
  }
  return 0;
}

MemoryKeepers& keepers_of(std::int32_t device) {
  static std::mutex mutex;
  static auto* const kAll = new std::map<std::int32_t, MemoryKeepers>;  // models may outlive static objects
  const std::lock_guard lock(mutex);
  return (*kAll)[device];
}

}  // namespace kpt::aten
