#pragma once

#include <functional>
#include <vector>

#include "device/activity.h"

namespace kpt::aten {

// Runs `work` on this thread under libtorch's profiler. With `with_gpus` it asks CUPTI too, which belongs to the CUDA
// wheels, or ROCm's tracer, which belongs to the ROCm wheels. One at a time in a process: throws when another recording
// is under way.
std::vector<Activity> record_activity(const std::function<void()>& work, bool with_gpus);

}  // namespace kpt::aten
