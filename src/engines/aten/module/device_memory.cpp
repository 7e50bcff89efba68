#include "engines/aten/module/device_memory.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <string>

#include <c10/core/CachingDeviceAllocator.h>

#include "engines/aten/module/guarded_call.h"

namespace kpt::aten {
namespace {

// What the vendors' libraries fail with when their own allocations do; the second kind has other reasons too.
constexpr const char* kAllocationFailed[] = {"CUDNN_STATUS_ALLOC_FAILED", "CUBLAS_STATUS_ALLOC_FAILED",
                                             "CUDA error: out of memory", "HIPBLAS_STATUS_ALLOC_FAILED",
                                             "miopenStatusAllocFailed",   "HIP error: out of memory"};
constexpr const char* kMayBeAllocation[] = {"CUDNN_STATUS_INTERNAL_ERROR", "CUDNN_STATUS_NOT_INITIALIZED",
                                            "CUBLAS_STATUS_NOT_INITIALIZED", "HIPBLAS_STATUS_NOT_INITIALIZED"};
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
  memory.out_of_memory_count = record.out_of_memory.load();
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
  const std::string text = first_line(error);
  const auto is_in = [&](const auto& names) {
    return std::any_of(std::begin(names), std::end(names),
                       [&](const char* name) { return text.find(name) != std::string::npos; });
  };
  if (is_in(kAllocationFailed)) return true;  // whatever is free by now: other threads come and go
  if (!is_in(kMayBeAllocation)) return false;
  try {
    return allocator().getMemoryInfo(device).first < kLibrariesNeed;
  } catch (const std::exception&) {  // the device is lost
    return false;
  }
}

Status describe_shortage(Status status, c10::DeviceIndex device) {
  if (status.code() != StatusCode::kOutOfMemory) return status;
  count_out_of_memory(device);
  try {
    const auto [free_bytes, total] = allocator().getMemoryInfo(device);
    status.with("free_bytes", std::to_string(free_bytes)).with("total_bytes", std::to_string(total));
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the failure itself is what counts
  }
  return std::move(status).with("advice", "run a smaller batch, or free memory that other processes hold");
}

void count_out_of_memory(c10::DeviceIndex device) { ++record_of(device).out_of_memory; }
void count_retry(c10::DeviceIndex device) { ++record_of(device).retries; }

}  // namespace kpt::aten
