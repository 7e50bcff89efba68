// Delayed scaling in plain C++: what plan_quantize_tensor() with a history does, run by run. The kernels keep the same
// ring on the device; tests hold them against this.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace kpt::gpu {

class ScaleHistory {
 public:
  // Of the last `capacity` runs, at least 1.
  explicit ScaleHistory(std::size_t capacity) : magnitudes_(capacity, 0.0F) {}

  // The magnitude that becomes the type's largest number in a run whose own greatest finite one is `own`: the greatest
  // of the runs that are remembered; of the first run, its own. Then remembers `own` in the place of the oldest.
  float next(float own) {
    const float followed = runs_ == 0 ? own : *std::max_element(magnitudes_.begin(), magnitudes_.end());
    magnitudes_[runs_ % magnitudes_.size()] = own;
    ++runs_;
    return followed;
  }

  // Real value = stored number · scale.
  static float scale(float followed, float largest_of_type) {
    constexpr float kSmallest = 1.17549435e-38F;
    return followed == 0 ? 1.0F : std::max(followed / largest_of_type, kSmallest);
  }

  const std::vector<float>& magnitudes() const { return magnitudes_; }
  std::size_t position() const { return runs_ % magnitudes_.size(); }

 private:
  std::vector<float> magnitudes_;  // 0 where no run was yet
  std::size_t runs_ = 0;
};

}  // namespace kpt::gpu
