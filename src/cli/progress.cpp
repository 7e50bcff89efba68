#include "cli/progress.h"

#include <algorithm>

#include <fmt/format.h>

namespace kpt::cli {

void Progress::tell(std::string_view step, double done) {
  if (!enabled_) return;
  if (!terminal_) {
    if (step == last_) return;
    last_ = step;
    out_ << step << "\n" << std::flush;
    return;
  }
  constexpr int kWidth = 24;
  const int filled = static_cast<int>(std::clamp(done, 0.0, 1.0) * kWidth);
  const std::string bar =
      std::string(static_cast<std::size_t>(filled), '#') + std::string(static_cast<std::size_t>(kWidth - filled), '.');
  out_ << fmt::format("\r\x1b[K[{}] {}", bar, step.substr(0, 50)) << std::flush;
  shown_ = true;
}

void Progress::finish() {
  if (shown_) out_ << "\r\x1b[K" << std::flush;
  shown_ = false;
}

}  // namespace kpt::cli
