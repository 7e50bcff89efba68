#pragma once

#include <functional>
#include <vector>

#include "device/activity.h"

namespace kpt::aten {

// Runs `work` on this thread under libtorch's profiler. With `with_cuda` it asks CUPTI too, which belongs to the CUDA
// wheels. One at a time in a process: throws when another recording is under way.
std::vector<Activity> record_activity(const std::function<void()>& work, bool with_cuda);

}  // namespace kpt::aten
