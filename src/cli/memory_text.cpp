#include "cli/memory_text.h"

#include <optional>
#include <vector>

#include <fmt/format.h>

#include "base/text.h"
#include "memory/available_memory.h"

namespace kpt::cli {
namespace {

template <typename T>
nlohmann::ordered_json value_or_null(const std::optional<T>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
}

}  // namespace

nlohmann::ordered_json to_json(const MemoryStatistics& memory) {
  return {{"total_bytes", value_or_null(memory.total_bytes)},
          {"free_bytes", value_or_null(memory.free_bytes)},
          {"limit_bytes", value_or_null(memory.limit_bytes)},
          {"available_bytes", value_or_null(count_available(memory))},
          {"allocated_bytes", value_or_null(memory.allocated_bytes)},
          {"peak_bytes", value_or_null(memory.peak_bytes)},
          {"reserved_bytes", value_or_null(memory.reserved_bytes)},
          {"reserved_peak_bytes", value_or_null(memory.reserved_peak_bytes)},
          {"fragmentation", value_or_null(count_fragmentation(memory))},
          {"allocations", value_or_null(memory.allocations)},
          {"frees", value_or_null(memory.frees)},
          {"out_of_memory_count", value_or_null(memory.out_of_memory_count)},
          {"retries", value_or_null(memory.retries)}};
}

std::string describe_memory(const MemoryStatistics& memory) {
  std::vector<std::string> parts;
  const auto add = [&](const char* name, const std::optional<std::uint64_t>& bytes) {
    if (bytes) parts.push_back(fmt::format("{} {}", name, format_bytes(*bytes)));
  };
  add("in use", memory.allocated_bytes);
  add("peak", memory.peak_bytes);
  add("taken", memory.reserved_bytes);
  add("free", memory.free_bytes);
  if (memory.free_bytes && memory.total_bytes) parts.back() += " of " + format_bytes(*memory.total_bytes);
  return join(parts, ", ");
}

}  // namespace kpt::cli
