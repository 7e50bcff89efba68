#include "engines/aten/cuda/cuda_memory.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>

#include <c10/cuda/CUDACachingAllocator.h>

namespace kpt::aten {
namespace {

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

std::uint64_t to_count(std::int64_t value) { return value > 0 ? static_cast<std::uint64_t>(value) : 0; }

}  // namespace

MemoryStatistics read_memory(c10::DeviceIndex device) {
  c10::cuda::CUDACachingAllocator::CUDAAllocator* const allocator = c10::cuda::CUDACachingAllocator::get();
  const c10::CachingDeviceAllocator::DeviceStats held = allocator->getDeviceStats(device);
  const auto [free_bytes, total_bytes] = allocator->getMemoryInfo(device);
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
  memory.out_of_memory_count = record.out_of_memory.load();
  memory.retries = record.retries.load() + to_count(held.num_alloc_retries);
  return memory;
}

std::uint64_t count_kept(c10::DeviceIndex device) {
  const c10::CachingDeviceAllocator::DeviceStats held = c10::cuda::CUDACachingAllocator::get()->getDeviceStats(device);
  return to_count(held.reserved_bytes[kAll].current - held.allocated_bytes[kAll].current);
}

void limit_memory(c10::DeviceIndex device, int percent) {
  c10::cuda::CUDACachingAllocator::setMemoryFraction(percent / 100.0, device);
  record_of(device).percent = percent;
}

void count_out_of_memory(c10::DeviceIndex device) { ++record_of(device).out_of_memory; }
void count_retry(c10::DeviceIndex device) { ++record_of(device).retries; }

}  // namespace kpt::aten
