#include "memory/available_memory.h"

#include <algorithm>
#include <limits>
#include <string>

#include <fmt/format.h>

#include "base/text.h"

namespace kpt {
namespace {

std::uint64_t less(std::uint64_t from, std::uint64_t amount) { return from - std::min(from, amount); }

std::uint64_t add(std::uint64_t a, std::uint64_t b) {
  std::uint64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<std::uint64_t>::max() : sum;
}

}  // namespace

bool is_shortage(StatusCode code) {
  return code == StatusCode::kOutOfMemory || code == StatusCode::kMemoryAllocation || code == StatusCode::kMemoryPool;
}

std::optional<std::uint64_t> count_available(const MemoryStatistics& memory) {
  if (!memory.free_bytes) return std::nullopt;
  const std::uint64_t allocated = memory.allocated_bytes.value_or(0);
  std::uint64_t available = add(*memory.free_bytes, less(memory.reserved_bytes.value_or(0), allocated));
  if (memory.limit_bytes) available = std::min(available, less(*memory.limit_bytes, allocated));
  return available;
}

std::optional<double> count_fragmentation(const MemoryStatistics& memory) {
  if (!memory.split_bytes || !memory.reserved_bytes) return std::nullopt;
  if (*memory.reserved_bytes == 0) return 0;
  return static_cast<double>(*memory.split_bytes) / static_cast<double>(*memory.reserved_bytes);
}

Status check_available(const MemoryStatistics& memory, std::uint64_t needed, std::uint64_t margin, Vendor vendor,
                       std::string_view what) {
  const auto available = count_available(memory);
  if (!available || add(needed, margin) <= *available) return {};
  Status status(StatusCode::kOutOfMemory,
                fmt::format("{} needs {} of memory and {} can be had", what, format_bytes(needed),
                            format_bytes(less(*available, margin))),
                vendor);
  return std::move(status)
      .with("needed_bytes", std::to_string(needed))
      .with("available_bytes", std::to_string(*available))
      .with("free_bytes", std::to_string(*memory.free_bytes))
      .with("margin_bytes", std::to_string(margin))
      .with("advice", std::string(kAdviceForRuns));
}

Status with_memory_facts(Status shortage, std::optional<std::uint64_t> needed, const MemoryStatistics& memory,
                         std::string_view advice) {
  const auto add_bytes = [&shortage](const char* key, const std::optional<std::uint64_t>& bytes) {
    if (bytes) shortage.with(key, std::to_string(*bytes));
  };
  add_bytes("needed_bytes", needed);
  add_bytes("available_bytes", count_available(memory));
  add_bytes("free_bytes", memory.free_bytes);
  add_bytes("total_bytes", memory.total_bytes);
  return std::move(shortage).with("advice", std::string(advice));
}

}  // namespace kpt
