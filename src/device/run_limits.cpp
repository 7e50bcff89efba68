#include "device/run_limits.h"

namespace kpt {

Status check_limits(const RunContext& context) {
  if (context.cancelled != nullptr && context.cancelled->load(std::memory_order_relaxed)) {
    return {StatusCode::kCancelled, "the run was cancelled"};
  }
  if (context.deadline && std::chrono::steady_clock::now() >= *context.deadline) {
    return {StatusCode::kDeadlineExceeded, "the run passed its time limit"};
  }
  return {};
}

}  // namespace kpt
