#include "device/compile_figures.h"

#include <algorithm>

#include <fmt/format.h>

namespace kpt {

std::optional<std::uint64_t> CompileFigures::total_bytes() const {
  if (!argument_bytes || !output_bytes || !temporary_bytes) return std::nullopt;
  std::uint64_t total = 0;
  for (const std::uint64_t part : {*argument_bytes, *output_bytes, *temporary_bytes, code_bytes.value_or(0)}) {
    if (__builtin_add_overflow(total, part, &total)) return std::nullopt;
  }
  return total - std::min({total, *output_bytes, alias_bytes.value_or(0)});
}

std::optional<std::uint64_t> CompileFigures::needed_bytes() const {
  return std::max(total_bytes(), peak_bytes);  // nothing is less than any number
}

std::string to_text(const CompileStatistics& statistics) {
  std::string text = fmt::format("{} compilations, {} hits, {} misses, {} errors", statistics.compilations,
                                 statistics.hits, statistics.misses, statistics.errors);
  if (statistics.hits + statistics.misses > 0) text += fmt::format(", hit rate {:.1f} %", statistics.hit_rate() * 100);
  return text;
}

std::optional<double> estimate_seconds(const CompileFigures& figures, const HardwareRates& rates) {
  if (!figures.flops || !figures.bytes_accessed) return std::nullopt;
  // Without matrix units products are arithmetic as all else.
  const double flops = std::max(rates.matrix_flops_per_second, rates.float32_flops_per_second);
  if (flops <= 0 || rates.bytes_per_second <= 0) return std::nullopt;
  return std::max(*figures.flops / flops, *figures.bytes_accessed / rates.bytes_per_second);
}

}  // namespace kpt
