#include "memory/memory_pool.h"

#include <algorithm>
#include <bit>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "memory/available_memory.h"

namespace kpt {
namespace {

constexpr std::size_t kLeastStep = 512;
constexpr std::size_t kMostStep = std::size_t{2} << 20U;

// Sizes that are nearly the same become one, so that memory of one fits the other: eight steps to a doubling, and no
// more than 2 MiB too much.
std::size_t round_size(std::size_t bytes) {
  const std::size_t step = std::clamp(std::bit_floor(std::max<std::size_t>(bytes, 1)) / 8, kLeastStep, kMostStep);
  const std::size_t rest = bytes % step;
  if (rest == 0 && bytes > 0) return bytes;
  std::size_t rounded = 0;
  return __builtin_add_overflow(bytes, step - rest, &rounded) ? bytes : rounded;
}

}  // namespace

// Memory in somebody's hands.
class MemoryPool::Piece final : public Buffer {
 public:
  Piece(std::shared_ptr<MemoryPool> pool, std::unique_ptr<Buffer> memory, std::size_t asked)
      : pool_(std::move(pool)), memory_(std::move(memory)), asked_(asked) {}
  Piece(const Piece&) = delete;
  Piece& operator=(const Piece&) = delete;
  ~Piece() override { pool_->put_back(std::move(memory_), asked_); }
  void* data() const override { return memory_->data(); }
  std::size_t bytes() const override { return asked_; }
  std::string_view device() const override { return pool_->device_; }

 private:
  std::shared_ptr<MemoryPool> pool_;
  std::unique_ptr<Buffer> memory_;
  std::size_t asked_;
};

std::shared_ptr<MemoryPool> MemoryPool::make(std::string device, Vendor vendor, MemorySource source,
                                             MemoryLimits limits) {
  return std::shared_ptr<MemoryPool>(new MemoryPool(std::move(device), vendor, std::move(source), limits));
}

Result<std::shared_ptr<Buffer>> MemoryPool::allocate(std::size_t bytes) {
  const std::size_t asked = std::max<std::size_t>(bytes, 1);
  KPT_ASSIGN_OR_RETURN(auto memory, take_or_reclaim(round_size(asked)));
  return hand_out(std::move(memory), asked);
}

Result<std::unique_ptr<Buffer>> MemoryPool::take_or_reclaim(std::size_t bytes) {
  const std::lock_guard taking(taking_mutex_);
  if (auto found = find_kept(bytes)) return found;
  std::uint64_t seen = count_returns();
  auto taken = take(bytes);
  const auto is_short = [&taken] { return is_shortage(taken.status().code()); };
  // Others may give back meanwhile but take nothing, so this ends.
  for (bool asked = false; is_short();) {
    if (auto found = find_kept(bytes)) return found;
    drop_kept();
    if (const std::uint64_t now = count_returns(); now != seen) {
      seen = now;
      taken = take_again(bytes);
    } else if (!asked) {
      asked = true;
      ask_holders();
    } else {
      break;
    }
  }
  if (!is_short()) return taken;
  {
    const std::lock_guard lock(mutex_);
    ++shortages_;
  }
  return describe_shortage(taken.status(), bytes);
}

Result<std::unique_ptr<Buffer>> MemoryPool::take_again(std::size_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    ++retries_;
  }
  return take(bytes);
}

std::uint64_t MemoryPool::count_returns() const {
  const std::lock_guard lock(mutex_);
  return returns_;
}

void MemoryPool::ask_holders() {
  const std::lock_guard lock(holders_mutex_);
  for (const auto& let_go : holders_) let_go();
}

// The smallest that is large enough, and not so large that it would be wasted.
std::unique_ptr<Buffer> MemoryPool::find_kept(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto found = kept_.lower_bound(bytes);
  if (found == kept_.end() || found->first - bytes > bytes / 4) return nullptr;
  kept_bytes_ -= found->first;
  std::unique_ptr<Buffer> memory = std::move(found->second);
  kept_.erase(found);
  return memory;
}

std::uint64_t MemoryPool::margin() const {
  const std::lock_guard lock(mutex_);
  return limits_.margin_bytes;
}

Result<std::unique_ptr<Buffer>> MemoryPool::take(std::size_t bytes) {
  if (const std::uint64_t margin = this->margin(); margin > 0) {
    KPT_ASSIGN_OR_RETURN(const DeviceMemory device, source_.ask());
    std::uint64_t least = 0;
    if (__builtin_add_overflow(margin, bytes, &least) || device.free_bytes < least) {
      return Status(StatusCode::kOutOfMemory,
                    fmt::format("{} more would leave less than {} of the memory of {}", format_bytes(bytes),
                                format_bytes(margin), device_),
                    vendor_);
    }
  }
  {
    const std::lock_guard lock(mutex_);
    if (bytes > limits_.most_bytes || reserved_bytes_ > limits_.most_bytes - bytes) {
      return Status(
          StatusCode::kMemoryPool,
          fmt::format("this process may take {} of the memory of {}, has {}, and needs {} more",
                      format_bytes(limits_.most_bytes), device_, format_bytes(reserved_bytes_), format_bytes(bytes)),
          vendor_);
    }
    reserved_bytes_ += bytes;
  }
  auto taken = source_.take(bytes);
  const std::lock_guard lock(mutex_);
  if (taken.ok()) {
    reserved_peak_bytes_ = std::max(reserved_peak_bytes_, reserved_bytes_);
  } else {
    reserved_bytes_ -= bytes;
  }
  return taken;
}

std::shared_ptr<Buffer> MemoryPool::hand_out(std::unique_ptr<Buffer> memory, std::size_t asked) {
  {
    const std::lock_guard lock(mutex_);
    ++allocations_;
    used_bytes_ += asked;
    spare_bytes_ += memory->bytes() - asked;
    peak_bytes_ = std::max(peak_bytes_, used_bytes_);
  }
  return std::make_shared<Piece>(shared_from_this(), std::move(memory), asked);
}

void MemoryPool::put_back(std::unique_ptr<Buffer> memory, std::size_t asked) {
  const std::size_t bytes = memory->bytes();
  {
    const std::lock_guard lock(mutex_);
    ++frees_;
    used_bytes_ -= asked;
    spare_bytes_ -= bytes - asked;
    if (bytes <= limits_.kept_bytes && kept_bytes_ <= limits_.kept_bytes - bytes) {
      ++returns_;
      kept_bytes_ += bytes;
      kept_.emplace(bytes, std::move(memory));
      return;
    }
  }
  memory.reset();  // the driver may take its time
  const std::lock_guard lock(mutex_);
  ++returns_;
  reserved_bytes_ -= bytes;
}

bool MemoryPool::release_kept() {
  const std::lock_guard taking(taking_mutex_);
  return drop_kept();
}

bool MemoryPool::drop_kept() {
  std::multimap<std::size_t, std::unique_ptr<Buffer>> unused;
  {
    const std::lock_guard lock(mutex_);
    unused.swap(kept_);
    kept_bytes_ = 0;
  }
  std::uint64_t bytes = 0;
  for (const auto& [size, memory] : unused) bytes += size;
  unused.clear();
  const std::lock_guard lock(mutex_);
  if (bytes > 0) ++returns_;
  reserved_bytes_ -= bytes;
  return bytes > 0;
}

void MemoryPool::tighten(const MemoryLimits& limits) {
  {
    const std::lock_guard lock(mutex_);
    limits_.most_bytes = std::min(limits_.most_bytes, limits.most_bytes);
    limits_.margin_bytes = std::max(limits_.margin_bytes, limits.margin_bytes);
    limits_.kept_bytes = std::min(limits_.kept_bytes, limits.kept_bytes);
    if (kept_bytes_ <= limits_.kept_bytes) return;
  }
  release_kept();
}

std::shared_ptr<void> MemoryPool::add_holder(std::function<void()> let_go) {
  const std::lock_guard lock(holders_mutex_);
  const auto place = holders_.insert(holders_.end(), std::move(let_go));
  return {static_cast<void*>(this), [pool = shared_from_this(), place](void*) {
            const std::lock_guard guard(pool->holders_mutex_);
            pool->holders_.erase(place);
          }};
}

// Of a device that refuses and has as much as was asked for, memory is not what is missing: it may lie in pieces.
Status MemoryPool::describe_shortage(const Status& status, std::size_t bytes) const {
  const auto device = source_.ask();
  std::string message(status.message());
  if (device.ok()) message += fmt::format("; {} of {} bytes are free", device->free_bytes, device->total_bytes);
  const bool refused = status.code() == StatusCode::kOutOfMemory && device.ok() && device->free_bytes >= bytes &&
                       device->free_bytes - bytes >= margin();
  Status described(refused ? StatusCode::kMemoryAllocation : status.code(), std::move(message), vendor_);
  described.with("needed_bytes", std::to_string(bytes));
  if (device.ok()) described.with("free_bytes", std::to_string(device->free_bytes));
  return described.with("advice", status.code() == StatusCode::kMemoryPool
                                      ? "run a smaller batch, or let this process take more of the device"
                                      : "run a smaller batch, or free memory that other processes hold");
}

MemoryStatistics MemoryPool::statistics() const {
  MemoryStatistics statistics;
  if (const auto device = source_.ask(); device.ok()) {
    statistics.total_bytes = device->total_bytes;
    statistics.free_bytes = device->free_bytes;
  }
  const std::lock_guard lock(mutex_);
  if (limits_.most_bytes != std::numeric_limits<std::uint64_t>::max()) statistics.limit_bytes = limits_.most_bytes;
  statistics.allocated_bytes = used_bytes_;
  statistics.peak_bytes = peak_bytes_;
  statistics.reserved_bytes = reserved_bytes_;
  statistics.reserved_peak_bytes = reserved_peak_bytes_;
  statistics.split_bytes = spare_bytes_;
  statistics.allocations = allocations_;
  statistics.frees = frees_;
  statistics.out_of_memory_count = shortages_;
  statistics.retries = retries_;
  return statistics;
}

void MemoryPool::reset_peak() {
  const std::lock_guard lock(mutex_);
  peak_bytes_ = used_bytes_;
  reserved_peak_bytes_ = reserved_bytes_;
}

}  // namespace kpt
