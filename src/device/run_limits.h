// When a run has to end early.
#pragma once

#include "device/execution.h"
#include "kpt/status.h"

namespace kpt {

// kCancelled when the caller wants the run no more, kDeadlineExceeded when its time is over.
Status check_limits(const RunContext& context);

}  // namespace kpt
