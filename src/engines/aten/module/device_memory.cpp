#include "engines/aten/module/device_memory.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

#include <c10/core/CachingDeviceAllocator.h>

#include "engines/aten/module/guarded_call.h"
#include "engines/aten/module/kept_memory.h"
#include "engines/aten/shortage_text.h"

namespace kpt::aten {
namespace {

// Where a library may have failed for want of memory, it did if less is free.
constexpr std::uint64_t kLibrariesNeed = std::uint64_t{512} << 20;

struct MemoryRecord {
  std::atomic<std::uint64_t> out_of_memory = 0;
  std::atomic<std::uint64_t> retries = 0;
  std::atomic<int> percent = 100;  // that this process may take
};

MemoryRecord& record_of(c10::DeviceIndex device) {
  static std::array<MemoryRecord, std::numeric_limits<c10::DeviceIndex>::max() + 1> all;
  return all.at(static_cast<std::size_t>(device));
}

constexpr auto kAll = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);

// libtorch registers it under CUDA for AMD's GPUs too.
c10::DeviceAllocator& allocator() { return *c10::getDeviceAllocator(c10::kCUDA); }

std::uint64_t to_count(std::int64_t value) { return value > 0 ? static_cast<std::uint64_t>(value) : 0; }

}  // namespace

MemoryStatistics read_memory(c10::DeviceIndex device) {
  const c10::CachingDeviceAllocator::DeviceStats held = allocator().getDeviceStats(device);
  const auto [free_bytes, total_bytes] = allocator().getMemoryInfo(device);
  const MemoryRecord& record = record_of(device);
  MemoryStatistics memory;
  memory.total_bytes = total_bytes;
  memory.free_bytes = free_bytes;
  if (const int percent = record.percent.load(); percent < 100) {
    memory.limit_bytes = total_bytes / 100 * static_cast<std::uint64_t>(percent);
  }
  memory.allocated_bytes = to_count(held.allocated_bytes[kAll].current);
  memory.peak_bytes = to_count(held.allocated_bytes[kAll].peak);
  memory.reserved_bytes = to_count(held.reserved_bytes[kAll].current);
  memory.reserved_peak_bytes = to_count(held.reserved_bytes[kAll].peak);
  memory.split_bytes = to_count(held.inactive_split_bytes[kAll].current);
  memory.allocations = to_count(held.allocation[kAll].allocated);
  memory.frees = to_count(held.allocation[kAll].freed);
  memory.out_of_memory_count = times_out_of_memory(device);
  memory.retries = record.retries.load() + to_count(held.num_alloc_retries);
  return memory;
}

std::uint64_t count_kept(c10::DeviceIndex device) {
  const c10::CachingDeviceAllocator::DeviceStats held = allocator().getDeviceStats(device);
  return to_count(held.reserved_bytes[kAll].current - held.allocated_bytes[kAll].current);
}

void remember_limit(c10::DeviceIndex device, int percent) { record_of(device).percent = percent; }

void empty_device_cache() { allocator().emptyCache(); }
void reset_device_peak(c10::DeviceIndex device) { allocator().resetPeakStats(device); }

bool ran_out_of_memory(const std::exception& error, c10::DeviceIndex device) {
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr) return true;
  const ShortageSign sign = find_shortage(first_line(error));
  if (sign != ShortageSign::kPossible) return sign == ShortageSign::kCertain;  // whatever other threads left by now
  try {
    return allocator().getMemoryInfo(device).first < kLibrariesNeed;
  } catch (const std::exception&) {  // the device is lost
    return false;
  }
}

Status describe_shortage(Status status, c10::DeviceIndex device, std::string_view advice) {
  const bool of_the_host = status.vendor() == Vendor::kNone;
  if (status.code() != StatusCode::kOutOfMemory || of_the_host) return status;
  count_out_of_memory(device);
  MemoryStatistics memory;
  try {
    memory = read_memory(device);
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the failure itself is what counts
  }
  const auto needed = find_requested_bytes(status.message());
  return with_memory_facts(std::move(status), needed, memory, advice);
}

void count_out_of_memory(c10::DeviceIndex device) { ++record_of(device).out_of_memory; }
void count_retry(c10::DeviceIndex device) { ++record_of(device).retries; }
std::uint64_t times_out_of_memory(c10::DeviceIndex device) { return record_of(device).out_of_memory.load(); }

bool give_up_kept_memory(c10::DeviceIndex device) {
  bool any = false;
  while (keepers_of(device).give_up_one(nullptr) > 0) any = true;
  return any;
}

}  // namespace kpt::aten
