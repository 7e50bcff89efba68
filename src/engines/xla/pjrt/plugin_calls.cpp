#include "engines/xla/pjrt/plugin_calls.h"

#include <fmt/format.h>

namespace kpt::pjrt {

Status no_answer(std::string_view plugin, std::string_view asked, std::chrono::milliseconds limit, Vendor vendor) {
  return {
      StatusCode::kDeadlineExceeded,
      fmt::format("PJRT plugin {} has not answered within {:.1f} s when asked to {}; see whether the device is there "
                  "and free: kpt doctor",
                  plugin, static_cast<double>(limit.count()) / 1000.0, asked),
      vendor};
}

}  // namespace kpt::pjrt
