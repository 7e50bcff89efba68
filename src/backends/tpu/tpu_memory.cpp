#include "backends/tpu/tpu_memory.h"

#include <fmt/format.h>

#include "base/text.h"

namespace kpt {

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
