#include "backends/tpu/tpu_memory.h"

#include <optional>

#include <fmt/format.h>

#include "base/text.h"

namespace kpt {

Status TpuMemory::check(const CompileFigures& figures) const {
  const auto needed = figures.needed_bytes();
  if (!needed || *needed <= usable_bytes) return {};
  const auto text = [](const std::optional<std::uint64_t>& bytes) {
    return bytes ? format_bytes(*bytes) : std::string("what is not told");
  };
  const bool by_peak = needed != figures.total_bytes();
  return too_large(fmt::format("arguments take {}, outputs {}, temporaries {}{}", text(figures.argument_bytes),
                               text(figures.output_bytes), text(figures.temporary_bytes),
                               by_peak ? fmt::format(", all at the peak {}", format_bytes(*needed)) : ""));
}

Status TpuMemory::too_large(const std::string& figures) const {
  return {StatusCode::kOutOfMemory,
          fmt::format(
              "the model does not fit one device of {}, which has {}{}: {}; use smaller sizes, a smaller "
              "element type or a generation with more memory",
              target, format_bytes(device_bytes),
              usable_bytes < device_bytes ? fmt::format(" ({} by tpu.memory_percent)", format_bytes(usable_bytes)) : "",
              figures),
          Vendor::kTpu};
}

}  // namespace kpt
