// Rotary positions on a GPU: what a caller fills in. rotary_kernels.h has the kernels and what limits them.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/gpu/launch.h"

namespace kpt::gpu {

// Turns pairs of each row of [sizes[0], sizes[1], sizes[2], width] by cosines and sines of the same sizes. With a, b a
// pair: a' = a·cos[a] - b·sin[a], b' = b·cos[b] + a·sin[b]. Elements of a row stand side by side in all tensors.
struct RotaryCall {
  DType dtype = DType::kFloat32;        // of input and result: float32, float16, bfloat16
  DType table_dtype = DType::kFloat32;  // the same or float32
  const void* input = nullptr;
  const void* cosines = nullptr;
  const void* sines = nullptr;
  void* result = nullptr;  // contiguous; may be the input when that is contiguous
  std::array<std::int64_t, 3> sizes{1, 1, 1};
  std::int64_t width = 0;  // even
  std::array<std::int64_t, 3> input_strides{};
  std::array<std::int64_t, 3> cosine_strides{};  // 0 where broadcast
  std::array<std::int64_t, 3> sine_strides{};
  bool interleaved = false;  // pairs are neighbours; otherwise element i goes with i + width/2
  bool inverse = false;      // the gradient: the transposed turn
};

Result<Plan> plan_rotary(const RotaryCall& call, const DeviceShape& device);

}  // namespace kpt::gpu
